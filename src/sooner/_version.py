"""The version, said once: the package, its metadata and stores it writes read it here."""

__version__ = "0.1.0"
