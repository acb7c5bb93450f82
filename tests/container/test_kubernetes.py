"""examples/kubernetes: the API server accepts them, and they do what they say, with podman in the
place of a cluster.
"""

import re

import kubelet
import kubernetes_validate
import pytest
import yaml
from podman import ROOT


EXAMPLES = ROOT / "examples/kubernetes"


def example(name):
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", ["indexed-job", "sidecar"])
@pytest.mark.parametrize("version", ["1.30", "1.33", kubernetes_validate.latest_version()])
def test_the_schema_is_kept(name, version):
    for document in example(name):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.fixture
def claims(folder):
    """A volume with 23 objects of 100 lines."""
    data = folder / "data"
    data.mkdir()
    for number in range(23):
        lines = (f"{number}-{line}\n" for line in range(100))
        (data / f"{number:02}.txt").write_text("".join(lines))
    return {"training-data": data}


def test_the_pods_of_an_indexed_job_read_each_object_once(container, folder, claims):
    documents = example("indexed-job")
    job = kubelet.of_kind(documents, "Job")["spec"]
    assert job["completionMode"] == "Indexed" and job["parallelism"] == job["completions"]
    pod = job["template"]["spec"]
    (train,) = pod["containers"]
    seen, shares = [], []
    for index in range(job["completions"]):
        volumes = kubelet.volumes(pod, documents, folder / str(index), claims)
        # Sets the defaults that the control plane sets.
        env = [{"name": "JOB_COMPLETION_INDEX", "value": str(index)}]
        code, log = container(*kubelet.podman_run(pod, train, volumes, env)).end()
        assert code == 0, log
        records = re.findall(r"^record (\S+)$", log, re.M)
        seen += records
        shares.append(len(records))
    assert sorted(seen) == sorted(f"{number}-{line}" for number in range(23) for line in range(100))
    assert sorted(shares) == [500, 600, 600, 600]


@pytest.mark.parametrize("name", ["indexed-job", "sidecar"])
def test_the_port_of_metrics_and_probes_is_the_one_that_is_served(name):
    documents = example(name)
    text = kubelet.of_kind(documents, "ConfigMap")["data"]["pipemill.toml"]
    served = int(re.search(r'^metrics = "0\.0\.0\.0:(\d+)"', text, re.M)[1])
    pod = kubelet.of_kind(documents, "Job")["spec"]["template"]["spec"]
    host = [*pod.get("initContainers", []), *pod["containers"]][0]
    assert host["ports"] == [{"name": "metrics", "containerPort": served}]
    if name == "sidecar":
        assert host["startupProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}


def test_the_command_is_killed_before_the_kubelet_kills_all():
    documents = example("indexed-job")
    text = kubelet.of_kind(documents, "ConfigMap")["data"]["pipemill.toml"]
    stop = int(re.search(r'stop_timeout = "(\d+)s"', text)[1])
    pod = kubelet.of_kind(documents, "Job")["spec"]["template"]["spec"]
    assert stop + 5 <= pod["terminationGracePeriodSeconds"]


def test_the_count_is_that_of_the_job():
    documents = example("indexed-job")
    job = kubelet.of_kind(documents, "Job")["spec"]
    (train,) = job["template"]["spec"]["containers"]
    env = {variable["name"]: variable["value"] for variable in train["env"]}
    assert env["COMPLETIONS"] == str(job["completions"])


def test_a_sidecar_serves_the_container_beside_it(container, folder, claims):
    """Two containers with two users, who share only the socket's folder; the reader starts first,
    and waits.
    """
    documents = example("sidecar")
    pod = kubelet.of_kind(documents, "Job")["spec"]["template"]["spec"]
    ((sidecar,), (train,)) = pod["initContainers"], pod["containers"]
    assert sidecar["restartPolicy"] == "Always"
    volumes = kubelet.volumes(pod, documents, folder, claims)
    reader = container(*kubelet.podman_run(pod, train, volumes))
    host = container(*kubelet.podman_run(pod, sidecar, volumes))
    code, log = reader.end()
    assert code == 0 and "records 2300\n" in log, log + host.log()
    # All is consumed; the kubelet would start it again, and end it with the pod.
    code, log = host.end()
    assert code == 0, log


def test_a_sidecar_that_waits_ends_when_asked(container, folder, claims):
    documents = example("sidecar")
    pod = kubelet.of_kind(documents, "Job")["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    volumes = kubelet.volumes(pod, documents, folder, claims)
    host = container(*kubelet.podman_run(pod, sidecar, volumes))
    kubelet.wait_for_startup(sidecar, host)
    host.stop(120)
    assert host.end()[0] == 143
