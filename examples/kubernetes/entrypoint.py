"""Starts Spark's driver or an executor in a pod, with the variables that Spark gives the container."""

import os
import re
import sys

SPARK_HOME = os.environ["SPARK_HOME"]
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def driver(arguments: list[str]) -> list[str]:
    address = os.environ["SPARK_DRIVER_BIND_ADDRESS"]
    return [
        f"{SPARK_HOME}/bin/spark-submit",
        *("--conf", f"spark.driver.bindAddress={address}"),
        *("--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"),
        *("--deploy-mode", "client", *arguments),
    ]


def executor() -> list[str]:
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    memory = os.environ["SPARK_EXECUTOR_MEMORY"]
    classes = [os.environ.get("SPARK_EXTRA_CLASSPATH", ""), f"{SPARK_HOME}/jars/*"]
    arguments = [word for name, variable in ARGUMENTS.items() for word in (name, os.environ[variable])]
    options = [value for name, value in os.environ.items() if re.fullmatch(r"SPARK_JAVA_OPT_\d+", name)]
    path = ":".join(filter(None, classes))
    return [java, *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", path, EXECUTOR, *arguments]


if __name__ == "__main__":
    command = driver(sys.argv[2:]) if sys.argv[1:2] == ["driver"] else executor()
    os.execvp(command[0], command)
