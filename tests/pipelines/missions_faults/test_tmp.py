import psycopg, time
from tests.pipelines.missions_faults.test_every_crash_point import *
import pytest
@pytest.mark.parametrize("point", POINTS)
async def test_x(point, theatre):
    t0=time.time()
    await crash_and_recover(theatre, point, SCENARIOS[point])
    print("TOTAL", point, time.time()-t0)
