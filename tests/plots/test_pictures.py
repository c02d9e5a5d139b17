"""Images side by side."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from sooner.plots import picture_strip


def test_each_image_has_its_title_and_is_clipped_to_what_can_be_shown():
    images = [np.full((4, 6, 3), value) for value in (-1.0, 0.5, 2.0)]
    axes = picture_strip(images, ["dark", "grey", "light"])
    assert [ax.get_title() for ax in axes] == ["dark", "grey", "light"]
    assert [float(ax.images[0].get_array().max()) for ax in axes] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("columns", "grid"), [(None, (1, 4)), (2, (2, 2)), (3, (2, 3)), (9, (1, 4))]
)
def test_columns_fold_the_strip(columns, grid):
    axes = picture_strip([np.zeros((2, 2))] * 4, list("abcd"), columns=columns)
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == grid


def test_it_draws_where_it_is_told(tmp_path):
    figure = Figure()
    own = list(figure.subplots(1, 2))
    assert picture_strip([np.zeros((2, 2))] * 2, ["a", "b"], ax=own) == own
    figure.savefig(tmp_path / "pictures.png")
    assert (tmp_path / "pictures.png").stat().st_size > 0


@pytest.mark.parametrize(("images", "titles"), [([], []), ([np.zeros((2, 2))], ["a", "b"])])
def test_titles_must_match_images(images, titles):
    with pytest.raises(ValueError, match="one title per image and at least one image, got"):
        picture_strip(images, titles)


def test_axes_must_match_images():
    with pytest.raises(ValueError, match="one Axes per image, got 1 for 2 images"):
        picture_strip([np.zeros((2, 2))] * 2, ["a", "b"], ax=[Figure().add_subplot()])
