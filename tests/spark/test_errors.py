"""Texts of Spark's errors, shortened to what the author of a pipeline can use."""

from barnabas.spark.errors import PipelineError

FAILED_WRITE = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "writer.py", line 211, in _write_aside
    frame.write.parquet(path)
py4j.protocol.Py4JJavaError: An error occurred while calling o1076.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.runJob(DAGScheduler.scala:1538)
Caused by: java.util.concurrent.ExecutionException: upload
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.nio.file.AccessDeniedException: upload on a/b: Access Denied (Status Code: 403)
\t... 34 more
"""


def test_the_text_of_a_write_that_failed_in_java_ends_with_its_cause() -> None:
    lines = str(PipelineError("The flow has failed.", RuntimeError(FAILED_WRITE))).splitlines()
    assert lines == [
        "The flow has failed.",
        "RuntimeError: An exception was raised by the Python Proxy. Return Message:",
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1076.parquet.",
        "Caused by: java.nio.file.AccessDeniedException: upload on a/b: Access Denied (Status Code: 403)",
    ]
