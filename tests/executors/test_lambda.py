"""Coded products on Lithops' backend for AWS Lambda, set up as the guide tells its reader to."""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
import os
import re
import secrets
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import sooner
from sooner.errors import WorkerLostError
from sooner.executors import as_executor

_spec = importlib.util.spec_from_file_location(
    "loopback_lambda", Path(__file__).with_name("loopback_lambda.py")
)
loopback_lambda = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(loopback_lambda)

GUIDE = (Path(__file__).parents[2] / "docs/guides/serverless.md").read_text(encoding="utf-8")
BUCKET = "my-bucket"  # as in the guide
N, K = 6, 4
N_COLUMNS = 600  # so that x travels through the storage
PATIENCE = 120.0  # seconds in which anything here ends, or it never will
CALL_TIMEOUT, FUNCTION_TIMEOUT = 3, 6  # seconds after which Lithops ends a call, and Lambda


def block_of_guide(language, containing):
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.M | re.S)
    (found,) = [block for block in blocks if containing in block]
    return found


def command_of_guide():
    """What an image of the guide's Dockerfile runs."""
    dockerfile = block_of_guide("dockerfile", "FROM")
    words = [re.search(rf"^{name} (.*)$", dockerfile, re.M)[1] for name in ("ENTRYPOINT", "CMD")]
    return [word for each in words for word in json.loads(each)]


def config_of_guide(endpoint, role):
    """The guide's configuration, but for where AWS is and how long anything may take."""
    names = {}
    exec(block_of_guide("python", '"aws_lambda"'), names)
    config = names["config"]
    config["lithops"] |= {"monitoring_interval": 0.1, "execution_timeout": CALL_TIMEOUT}
    config["lithops"] |= {"data_cleaner": False}  # a process that stays
    config["aws"]["region"] = loopback_lambda.REGION
    config["aws_lambda"] |= {
        "execution_role": role,
        "runtime_timeout": FUNCTION_TIMEOUT,
        "env_vars": [
            {"name": "AWS_ENDPOINT_URL", "value": endpoint},
            {"name": "AWS_ALLOW_HTTP", "value": "true"},
        ],
    }
    return config


def policy_of_guide(action):
    """A policy of the guide, as moto reads policies."""
    policy = json.loads(block_of_guide("json", action))
    for statement in policy["Statement"]:
        if "s3:" not in statement["Resource"]:
            statement["Resource"] = "*"  # it knows the resource of what is done on S3 only
        elif statement["Action"] == "s3:ListBucket":
            statement["Action"] = ["s3:ListBucket", "s3:HeadBucket"]  # one right on AWS
    return json.dumps(policy)


def create_rights(iam, sts):
    """Create the user and the role of the guide: its name, and the variables that hold keys."""
    user = f"user-{secrets.token_hex(4)}"
    iam.create_user(UserName=user)
    policy = policy_of_guide("lambda:CreateFunction")
    iam.put_user_policy(UserName=user, PolicyName="sooner", PolicyDocument=policy)
    key = iam.create_access_key(UserName=user)["AccessKey"]

    trust = block_of_guide("json", "sts:AssumeRole")
    role = iam.create_role(RoleName=f"role-{user}", AssumeRolePolicyDocument=trust)["Role"]
    policy = policy_of_guide("logs:PutLogEvents")
    iam.put_role_policy(RoleName=role["RoleName"], PolicyName="sooner", PolicyDocument=policy)
    session = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="function")["Credentials"]
    return SimpleNamespace(role=role["Arn"], user=variables(key), function=variables(session))


def variables(key):
    found = {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    return found | ({"AWS_SESSION_TOKEN": key["SessionToken"]} if "SessionToken" in key else {})


def push_image(ecr, user_id, config):
    """Leave in the registry what ``lithops runtime build`` leaves there."""
    import lithops

    package = f"lithops_v{lithops.__version__.replace('.', '')}_{user_id[-4:].lower()}"
    repository = f"{package}/{config['aws_lambda']['runtime']}"
    ecr.create_repository(repositoryName=repository)
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
    manifest |= {"config": {"digest": f"sha256:{secrets.token_hex(32)}"}}
    ecr.put_image(repositoryName=repository, imageManifest=json.dumps(manifest), imageTag="latest")


class ToEndpoint:
    """The one seam: Lithops invokes at Amazon's host, whatever endpoint is configured."""

    def __init__(self, backend, endpoint):
        self._session, self._host, self._endpoint = backend.session, backend.host, endpoint

    def send(self, request):
        request.url = request.url.replace(f"https://{self._host}", self._endpoint)
        return self._session.send(request)


@pytest.fixture(scope="module")
def aws(tmp_path_factory):
    """AWS on loopback with the guide's user, role and image; afterwards nothing may be left."""
    import boto3

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threads, processes = set(threading.enumerate()), set(psutil.Process().children())
    folder = tmp_path_factory.mktemp("lambda")
    service = loopback_lambda.LoopbackAWS(command_of_guide(), folder)
    with service, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        first = {"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "secret"}
        region = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), loopback_lambda.REGION)
        endpoint = {"AWS_ENDPOINT_URL": service.endpoint, "AWS_ALLOW_HTTP": "true"}
        for name, value in (first | region | endpoint).items():
            patch.setenv(name, value)
        root = boto3.Session()
        root.client("s3").create_bucket(Bucket=BUCKET)
        rights = create_rights(root.client("iam"), root.client("sts"))
        for name, value in rights.user.items():
            patch.setenv(name, value)
        config = config_of_guide(service.endpoint, rights.role)
        # Lithops remembers in there what it has deployed.
        patch.setattr("lithops.storage.storage.CACHE_DIR", str(folder / "cache"))
        patch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the keys that it began with
        push_image(root.client("ecr"), boto3.client("sts").get_caller_identity()["UserId"], config)
        service.variables = rights.function
        # From now on rights count. Of signatures of Lambda's requests, moto finds right ones wrong.
        patch.setattr("moto.iam.access_control.IAMRequest.check_signature", lambda _: None)
        patch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)
        yield SimpleNamespace(service=service, config=config)
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), f"{thread} is left"
    assert set(psutil.Process().children()) <= processes, "a process is left"


@pytest.fixture(scope="module")
def functions(aws):
    """Lithops with the guide's configuration; the function is deployed, and nothing repeated."""
    import lithops

    names = {}
    exec(block_of_guide("python", "def repeat_nothing"), names)
    with lithops.FunctionExecutor(config=aws.config, log_level=None) as functions:
        backend = functions.compute_handler.backend
        backend.session = ToEndpoint(backend, aws.service.endpoint)
        assert functions.compute_handler.list_runtimes() == []
        with as_executor(functions) as executor:  # the first call deploys
            assert executor.submit_many(abs, [(-1,)])[0].result(PATIENCE) == 1
        names["repeat_nothing"](functions)
        yield functions
        functions.compute_handler.clean()
        assert functions.compute_handler.list_runtimes() == []
    functions.invoker.executor.shutdown()  # Lithops leaves these threads to the interpreter


@pytest.fixture
def matrix():
    return np.random.default_rng(0).standard_normal((240, N_COLUMNS))


@pytest.fixture
def coded(aws, matrix):
    store = f"s3://{BUCKET}/{secrets.token_hex(4)}.coded"
    return sooner.encode(matrix, sooner.PolarCode(N, K, rng=0), store=store)


def multiply(coded, matrix, executor, x=None):
    x = np.ones(N_COLUMNS) if x is None else x
    with sooner.matvec(coded, x, executor=executor) as job:
        np.testing.assert_allclose(job.result(timeout=PATIENCE), matrix @ x, atol=1e-9)
    return job


def test_lithops_deploys_the_function_of_the_guide(aws, functions):
    import boto3

    settings = aws.config["aws_lambda"]
    ((runtime, memory, _, name),) = functions.compute_handler.list_runtimes()
    assert (runtime, memory) == (settings["runtime"], settings["runtime_memory"])
    function = boto3.client("lambda").get_function(FunctionName=name)["Configuration"]
    assert function["PackageType"] == "Image"
    assert function["Timeout"] == FUNCTION_TIMEOUT
    assert function["Role"] == settings["execution_role"]


def test_products_in_a_row_are_exact_and_their_values_are_removed(functions, coded, matrix):
    import boto3

    with as_executor(functions) as executor:
        for round_ in range(2):
            multiply(coded, matrix, executor, np.full(N_COLUMNS, float(round_)))
    listed = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="lithops.jobs/")
    # What Lithops writes down about calls is for its own cleaner.
    kept = (".init", "status.json", ".func.pickle")
    assert [each["Key"] for each in listed["Contents"] if not each["Key"].endswith(kept)] == []
    assert functions.job_monitor.monitor.job_ids() == set()  # nothing polls any more


def test_values_of_two_programs_that_share_a_bucket_never_mix(functions, monkeypatch):
    from lithops.storage import storage

    with as_executor(functions) as ours, as_executor(functions) as theirs:
        values = []
        for number, executor in enumerate((ours, theirs)):
            # Lithops counts its objects from zero in each program.
            monkeypatch.setattr(storage, "COBJECTS_INDEX", itertools.count())
            values.append(executor.broadcast(np.full(5000, float(number))))
        mine, yours = ours._shipped[values[0].name], theirs._shipped[values[1].name]
        assert mine.key != yours.key


def test_what_is_warm_serves_the_next_call_in_a_fresh_process(aws, functions):
    def places():
        return os.getppid(), os.getpid()  # the function's process, and that of the call

    calls, service = [], aws.service
    with as_executor(functions) as executor:
        for _ in range(3):
            before = len(service.invocations)
            calls += [executor.submit_many(places, [()])[0].result(PATIENCE)]
            assert service.wait_for(lambda ended, before=before: len(ended) > before)
    environments, children = zip(*calls, strict=True)
    assert len(set(environments)) == 1
    assert len(set(children)) == 3
    assert [each.cold for each in service.invocations[-2:]] == [False, False]


def test_calls_at_the_same_time_have_an_environment_each(functions, starts, tmp_path):
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)

    def meet(starts, gate):
        Path(starts).write_text(f"{os.getppid()}\n", encoding="utf-8")
        with Path(gate).open("rb", buffering=0) as opened:
            return opened.read(1)

    with as_executor(functions) as executor:
        futures = executor.submit_many(meet, [(starts.path, gate)] * 3)
        assert len(set(starts.wait(3, timeout=PATIENCE))) == 3
        with Path(gate).open("r+b", buffering=0) as opened:
            opened.write(b"123")
            met = [future.result(PATIENCE) for future in futures]
    assert sorted(met) == [b"1", b"2", b"3"]


def accidents(*names):
    """Ends of a call; defined in here, they travel by value."""

    def exits():
        os._exit(3)

    def is_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    def never_returns():
        time.sleep(3600)

    def takes_its_environment_along():
        os.kill(os.getppid(), signal.SIGKILL)

    def stops_its_environment():
        os.kill(os.getppid(), signal.SIGSTOP)  # Lithops cannot end the call then, but Lambda can

    found = locals()
    return [found[name] for name in names]


class Accidents:
    """An executor of which the first tasks end badly, the first time that they run."""

    def __init__(self, executor, *names):
        self._executor, self._ends = executor, accidents(*names)

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def submit_many(self, fn, args, **kwargs):
        def run(end, *arguments):
            if end is not None:
                end()
            return fn(*arguments)

        ends, self._ends = self._ends + [None] * (len(args) - len(self._ends)), []
        together = [(end, *each) for end, each in zip(ends, args, strict=True)]
        return self._executor.submit_many(run, together, **kwargs)


ENDS = {
    "exits": "exited with code 3",
    "is_killed": "killed with SIGKILL",
    "never_returns": "maximum time of 3 seconds",
}


def test_calls_that_end_badly_are_lost_tasks_that_say_why(functions):
    def end(how):
        how()

    with as_executor(functions) as executor:
        futures = executor.submit_many(end, [(how,) for how in accidents(*ENDS)])
        for future, says in zip(futures, ENDS.values(), strict=True):
            with pytest.raises(WorkerLostError, match=says):
                future.result(PATIENCE)


@pytest.mark.parametrize(
    "ends",
    [("exits", "is_killed"), ("never_returns", "takes_its_environment_along")],
    ids=" ".join,
)
def test_calls_that_end_badly_cost_no_answer(functions, coded, matrix, ends):
    with as_executor(functions) as executor:
        job = multiply(coded, matrix, Accidents(executor, *ends))
    first = [record for record in job.trace if record.task < len(ends) and not record.attempt]
    assert {record.outcome for record in first} <= {"lost", "abandoned"}


def test_a_function_above_its_time_out_is_killed_and_the_next_product_runs(
    aws, functions, coded, matrix
):
    before = len(aws.service.invocations)
    with as_executor(functions) as executor:
        multiply(coded, matrix, Accidents(executor, *["stops_its_environment"] * 2))
        multiply(coded, matrix, executor)
    assert aws.service.wait_for(
        lambda ended: sum(each.outcome == "time-out" for each in ended[before:]) == 2
    )


def test_what_lambda_repeats_does_no_harm(aws, functions, coded, matrix):
    import boto3

    ((_, _, _, name),) = functions.compute_handler.list_runtimes()
    service, settings = aws.service, boto3.client("lambda")

    def exits(before):
        return sum(each.outcome == "exit" for each in service.invocations[before:])

    with as_executor(functions) as executor:
        for repeats in (2, 0):
            settings.put_function_event_invoke_config(
                FunctionName=name, MaximumRetryAttempts=repeats
            )
            before = len(service.invocations)
            executor.submit_many(*accidents("takes_its_environment_along"), [()])
            assert service.wait_for(lambda _, n=1 + repeats, since=before: exits(since) == n)
            multiply(coded, matrix, executor)
            assert exits(before) == 1 + repeats
