"""One sentence for each reason why Python on driver or executors cannot run Barnabas."""

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
    said = executor_problem(
        f"Job aborted due to stage failure: Task 0 in stage 0.0 failed\n{reported}\n\tat java"
    )
    assert said.startswith(sentence)
    assert "barnabas pipeline pack -o env.tar.gz" in said
