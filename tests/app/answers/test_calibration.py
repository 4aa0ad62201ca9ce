"""Which file does a calibration of an engine name as its profile?"""

from app.answers.calibration import server
from app.questions.calibrate import CalibrateQuestion
from hardware_profiles.loader import load_device
from tests.real_runs.calibration.server.test_calibrate_server import calibrated


def test_the_profile_is_the_stated_file(monkeypatch, tmp_path):
    found, mine = calibrated(tmp_path), tmp_path / "mine.toml"
    monkeypatch.setattr(server, "calibrate_server", lambda **_: found)
    asked = {"server": "http://127.0.0.1:8080", "results": tmp_path}
    stated = server.calibrate_engine(CalibrateQuestion(**asked, out=mine))
    assert stated.profile == mine and load_device(mine) == load_device(found.profile)
    assert f"--device {mine} " in "".join(map(str, stated.shown()))
    assert server.calibrate_engine(CalibrateQuestion(**asked)).profile == found.profile
