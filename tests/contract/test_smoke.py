from tests.contract.cluster import Build, Namespace
def test_pod(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "echo hi"))
    ns.finished("p")
    assert ns.log("p").text == "hi\n"
