"""A Kubernetes cluster on loopback: fabric8's API server, and a kubelet that runs containers as processes.

The image is a container file: its ENTRYPOINT is run, and paths that it copies to the image lead to the files here.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark

from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.spark.jars import kubernetes_jars
from tests.support.waiting import still_running, until

SPARK_HOME = Path(pyspark.__file__).parent
SERVER = PROJECT_ROOT / "tests/java/kubernetes/KubernetesApi.java"
SECONDS = 120.0
POLL_SECONDS = 0.5
Pod = dict[str, Any]


class ContainerFile:
    """Parts of an image used by the kubelet: entry point and files."""

    def __init__(self, path: Path, others: dict[str, Path]) -> None:
        """`others` are files that the reader adds to the folder of the container file."""
        self._files: dict[str, Path] = {}
        self.entry: list[str] = []
        for line in path.read_text().splitlines():
            word, _, rest = line.partition(" ")
            if word == "COPY":
                *names, target = shlex.split(rest)
                for name in names:
                    at = f"{target}{name}" if target.endswith("/") else target
                    self._files[at] = others.get(name, path.parent / name)
            elif word == "ENTRYPOINT":
                self.entry = json.loads(rest)
        assert all(found.exists() for found in self._files.values()), self._files

    def here(self, text: str) -> str:
        for at, path in self._files.items():
            text = text.replace(at, str(path))
        return text


class Kubernetes:
    """The API and one node. `pods` are all that were created, as Spark wrote them."""

    def __init__(self, folder: Path, image: ContainerFile) -> None:
        self._folder, self._image = folder, image
        self.url = f"http://127.0.0.1:{free_port()}"
        self.pods: dict[str, Pod] = {}
        self._api: subprocess.Popen[bytes] | None = None
        self._containers: dict[str, subprocess.Popen[bytes]] = {}
        self._ended = threading.Event()
        self._kubelet = threading.Thread(target=self._run_pods, name="kubelet")

    def __enter__(self) -> Kubernetes:
        self._folder.mkdir(parents=True, exist_ok=True)
        jars = ":".join([*map(str, kubernetes_jars()), f"{SPARK_HOME}/jars/*"])
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars, str(SERVER)]
        log = self._folder / "api.log"
        with log.open("wb") as output:
            command.append(self.url.rpartition(":")[2])
            self._api = subprocess.Popen(command, stdout=output, stderr=output)
        alive = still_running(self._api, log.read_text)
        until(lambda: self._get("pods"), log.read_text, SECONDS, meanwhile=alive, ignoring=OSError)
        self._kubelet.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._kubelet.join(SECONDS)
        for process in self._containers.values():
            _end(process)
        if self._api is not None:
            self._api.kill()
            self._api.wait()

    def pods_of(self, role: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"].get("spark-role") == role]

    def phase(self, pod: Pod) -> str:
        return str(self._get(f"pods/{pod['metadata']['name']}").get("status", {}).get("phase"))

    def kill(self, pod: Pod) -> None:
        """The container ends like one that exceeded its memory."""
        os.killpg(self._containers[pod["metadata"]["name"]].pid, signal.SIGKILL)

    def logs(self) -> str:
        paths = sorted(self._folder.glob("*/log"))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-6000:]}" for path in paths)

    # -- Kubelet -------------------------------------------------------------------------------------------

    def _run_pods(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            present = {pod["metadata"]["name"]: pod for pod in self._get("pods")["items"]}
            for name, pod in present.items():
                if name not in self._containers and self._has_volumes(pod):
                    self._start(name, pod)
            for name, process in self._containers.items():
                if name not in present:
                    _end(process)
                elif process.poll() is not None and _phase(present[name]) == "Running":
                    self._report(name, "Failed" if process.returncode else "Succeeded", process.returncode)

    def _has_volumes(self, pod: Pod) -> bool:
        """Config maps and the service are created after the driver's pod."""
        maps = [each["configMap"]["name"] for each in pod["spec"]["volumes"] if "configMap" in each]
        present = {each["metadata"]["name"] for each in self._get("configmaps")["items"]}
        return present >= set(maps) and bool(self._get("services")["items"])

    def _start(self, name: str, pod: Pod) -> None:
        self.pods[name] = pod
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        address = self._address(name)
        container = pod["spec"]["containers"][0]
        mounts = {each["mountPath"]: self._mounted(each, pod, folder) for each in container["volumeMounts"]}
        command = [self._placed(word, mounts) for word in [*self._image.entry, *container["args"]]]
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",  # of the image, where pip installs
            "HOME": str(folder),
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={self._hosts()}",
            **{key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ},
        }
        for each in container["env"]:
            value = each.get("value", "") if "valueFrom" not in each else address
            if each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") == "metadata.name":
                value = name
            environment[each["name"]] = self._placed(value, mounts)
        with (folder / "log").open("wb") as log:
            self._containers[name] = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )
        self._report(name, "Running")

    def _mounted(self, mount: Pod, pod: Pod, folder: Path) -> Path:
        place = folder / str(mount["name"])
        place.mkdir(exist_ok=True)
        volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
        if "configMap" in volume:
            for name, text in self._get(f"configmaps/{volume['configMap']['name']}")["data"].items():
                (place / name).write_text(self._image.here(text))
        return place

    def _placed(self, text: str, mounts: dict[str, Path]) -> str:
        for at, path in mounts.items():
            text = text.replace(at, str(path))
        return self._image.here(text)

    def _address(self, name: str) -> str:
        """Each pod has one."""
        return f"127.0.1.{1 + list(self.pods).index(name)}"

    def _hosts(self) -> Path:
        """The cluster's DNS: the headless service of the driver is the address of its pod."""
        drivers = [pod["metadata"]["name"] for pod in self.pods_of("driver")]
        lines = [f"127.0.0.1 localhost {os.uname().nodename}"]
        for service in self._get("services")["items"]:
            host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
            lines.append(f"{self._address(drivers[-1])} {host}")
        path = self._folder / "hosts"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _report(self, name: str, phase: str, code: int | None = None) -> None:
        state: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}
        container = self.pods[name]["spec"]["containers"][0]
        reported = {"name": container["name"], "ready": code is None, "started": True, "state": state}
        reported |= {"image": container["image"], "imageID": "", "restartCount": 0}
        status = {"phase": phase, "podIP": self._address(name), "containerStatuses": [reported]}
        self._call("PATCH", f"pods/{name}/status", {"status": status})

    def _get(self, what: str) -> Any:
        return self._call("GET", what, None)

    def _call(self, method: str, what: str, content: object) -> Any:
        data = None if content is None else json.dumps(content).encode()
        url = f"{self.url}/api/v1/namespaces/default/{what}"
        headers = {"Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)


def _phase(pod: Pod) -> str:
    return str(pod.get("status", {}).get("phase"))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
