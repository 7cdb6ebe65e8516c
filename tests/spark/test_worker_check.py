"""One message for each reason why Python on driver or executors cannot run Barnabas."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.spark.worker_check import check_workers, executor_problem


def test_workers_of_a_local_session_are_accepted(spark: SparkSession) -> None:
    check_workers(spark)


@pytest.mark.parametrize(
    ("reported", "sentence"),
    [
        ("ModuleNotFoundError: No module named 'barnabas'", "Python on the executors has no module barnabas"),
        (
            'IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory',
            "The executors cannot run ./environment/bin/python, which does not exist there",
        ),
        (
            'IOException: Cannot run program "/opt/python": Exec failed, error=8 (Exec format error)',
            "The executors cannot run /opt/python, which is for another processor",
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "Executors have another Python"),
        ("Segmentation fault", "Python on the executors cannot run Barnabas"),
    ],
)
def test_a_problem_of_executors_is_named_with_the_command_that_solves_it(
    reported: str, sentence: str
) -> None:
    message = executor_problem(
        f"Job aborted due to stage failure: Task 0 in stage 0.0 failed\n{reported}\n\tat java"
    )
    assert message.startswith(sentence)
    assert "barnabas pipeline pack -o env.tar.gz" in message


def in_plain_environment(program: str) -> "subprocess.CompletedProcess[str]":
    """Run with this Python, in an environment as if it were not activated."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )


def test_import_of_the_data_source_makes_spark_find_it_in_this_python() -> None:
    program = "import pyspark_barnabas, shutil; print(shutil.which('python3'))"
    found = in_plain_environment(program)
    assert (Path(found.stdout.strip()).parent, found.stderr) == (Path(sys.executable).parent, "")


def test_the_import_is_an_error_after_the_start_of_a_spark_with_another_python() -> None:
    program = "from pyspark import SparkContext; SparkContext._gateway = object(); import pyspark_barnabas"
    failed = in_plain_environment(program)
    sentence = f"which cannot import Barnabas: set PYSPARK_PYTHON to {sys.executable} in the environment"
    assert (failed.returncode, sentence in failed.stderr) == (1, True)
