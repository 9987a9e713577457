"""pytest-html's page, made by a real pytest run with the hooks registered."""

from pathlib import Path

import pytest

from gpuproof.report.page import PROPERTY_CHECK, PROPERTY_SUBJECT

pytest_plugins = ["pytester"]

CONFTEST = f"""
import pytest
from gpuproof.report import RunView
from gpuproof.report.page import ReportPage
from tests.gpuproof.report import synthetic

VIEW = RunView.from_record(synthetic.run(2, short=["gpu-1"]))

def pytest_configure(config):
    links = [("report.html", "report.html"), ("junit.xml", "junit.xml")]
    config.pluginmanager.register(ReportPage(look_up=VIEW.find, view=lambda: VIEW, links=links))

@pytest.fixture(autouse=True)
def named(request, record_property):
    if "node" in request.fixturenames:
        record_property({PROPERTY_CHECK!r}, "gpu_inventory")
        record_property({PROPERTY_SUBJECT!r}, request.getfixturevalue("node"))
"""

TESTS = """
import pytest

@pytest.mark.parametrize("node", ["gpu-1", "gpu-2"])
def test_inventory(node):
    assert node == "gpu-2"

def test_something_else():
    pass
"""


@pytest.fixture
def html(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    result = pytester.runpytest_subprocess("--html=page.html", "--self-contained-html", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    return (pytester.path / "page.html").read_text(encoding="utf-8")


def test_page_has_decision_links_columns_and_findings(html: str) -> None:
    assert "✗ REJECTED" in html
    assert "SIMULATED cluster" in html
    assert 'href="report.html"' in html
    assert "gpuproof: pytest" in html
    assert 'data-column-type="measured"' in html
    assert "gpus_allocatable = 2 (gpus_per_node of the profile)" in html
    assert "expected = 2 (gpus_per_node" in html
