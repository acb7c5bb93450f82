"""The kubelet's work on a pod's specification, for the fields that examples/kubernetes uses: from
YAML to podman. It refuses a field that it does not know, so that no line of an example remains
untested silently."""

import os
import time

from podman import HOST, TRAINING

IMAGES = {"pipemill": HOST, "my-training": TRAINING, "my-python": TRAINING}
MIB = 1 << 20
#: Fields that do not matter to a single machine's runtime, or that hold for every container of the
#tests.
CONTAINER = {"name", "image", "args", "command", "env", "restartPolicy", "resources", "securityContext", "volumeMounts"}
CONTAINER |= {"ports", "startupProbe"}
SECURITY = {"runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation"}
SECURITY |= {"capabilities", "seccompProfile"}


def of_kind(documents, kind):
    (found,) = [one for one in documents if one["kind"] == kind]
    return found


def volumes(pod, documents, folder, claims):
    """Folders that stand for the pod's volumes, by name."""
    found = {}
    for volume in pod["volumes"]:
        path = folder / "volumes" / volume["name"]
        if "configMap" in volume:
            config = of_kind(documents, "ConfigMap")
            assert config["metadata"]["name"] == volume["configMap"]["name"]
            path.mkdir(parents=True)
            for name, text in config["data"].items():
                (path / name).write_text(text)
        elif "emptyDir" in volume:
            path.mkdir(parents=True)
            # Sets the rights as the kubelet does.
            path.chmod(0o777)
        else:
            path = claims[volume["persistentVolumeClaim"]["claimName"]]
        found[volume["name"]] = path
    return found


def podman_run(pod, container, volumes, more_env=()):
    """Image, arguments and options for `podman run`, in addition to those that every test's
    container has.
    """
    assert container.keys() <= CONTAINER, container.keys() - CONTAINER
    security = {**pod["securityContext"], **container["securityContext"]}
    assert security.keys() <= SECURITY, security.keys() - SECURITY
    assert security["runAsNonRoot"] and security["runAsUser"] > 0
    # These are in `podman.STRICT`.
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    memory = container["resources"]["limits"]["memory"]
    assert memory.endswith("Mi")
    options = ["--user", f"{security['runAsUser']}:{security['runAsGroup']}"]
    options += ["--memory", f"{memory[:-2]}m", "--memory-swap", f"{memory[:-2]}m"]
    for variable in [*container.get("env", []), *more_env]:
        options += ["-e", f"{variable['name']}={variable['value']}"]
    for mount in container["volumeMounts"]:
        mode = "ro" if mount.get("readOnly") else "rw"
        options += ["-v", f"{volumes[mount['name']]}:{mount['mountPath']}:{mode}"]
    args = container.get("args", [])
    if "command" in container:
        program, *rest = container["command"]
        options += ["--entrypoint", program]
        args = [*rest, *args]
    return IMAGES[container["image"]], [os.fspath(word) for word in args], options


def wait_for_startup(container, running):
    """Runs the container's probe until it succeeds, as the kubelet does before it starts the next
    container.
    """
    probe = container["startupProbe"]
    assert probe.keys() == {"httpGet", "periodSeconds", "failureThreshold"}
    get = probe["httpGet"]
    (port,) = [one["containerPort"] for one in container["ports"] if one["name"] == get["port"]]
    for _ in range(probe["failureThreshold"]):
        if running.answers(port, get["path"]):
            return
        time.sleep(probe["periodSeconds"])
    raise AssertionError(f"{get['path']} was not answered well:\n{running.log()}")
