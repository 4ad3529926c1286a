"""Times of points and de-skew: answers, warnings, refusals. tests/oracle checks every bit."""

import struct
import unittest

from http_case import JSON, SharedDaemonCase, floats

TWIST = "deskew=twists&deskew_twists=0,10,0,0,0,0,0"
ROWS = floats(1, 0, 0, -0.1, 1, 0, 0, 0, 1, 0, 0, 0.05)
SIXTEEN = "1,0,0,{},0,1,0,0,0,0,1,0,0,0,0,1"


def pcd(times, kind="F 8 d", points=None):
    """A PCD file of x, y, z and a time."""
    letter, size, code = kind.split()
    points = points or [(1, 0, 0)] * len(times)
    head = f"FIELDS x y z stamp\nSIZE 4 4 4 {size}\nTYPE F F F {letter}\nCOUNT 1 1 1 1\n"
    head += f"WIDTH {len(times)}\nHEIGHT 1\nPOINTS {len(times)}\nDATA binary\n"
    return head.encode() + b"".join(struct.pack(f"<fff{code}", *point, time) for point, time in zip(points, times))


class Deskew(SharedDaemonCase):
    def ask_points(self, query, body=ROWS, *lines):
        return self.post(f"/v1/points?{query}", body, *lines)

    def refused(self, parameter, *queries, status=400, kind="bad-parameter", body=ROWS):
        for query in queries:
            with self.subTest(query):
                self.problem(self.ask_points(query, body), status, kind, parameter)

    def answered(self, query, body=ROWS):
        answer = self.tensors(self.ask_points(query, body))
        kinds = [warning["kind"] for warning in answer.metadata["warnings"]]
        return [round(value, 4) for value in answer.values("points")], answer.metadata, kinds

    def test_a_moving_sensor(self):
        """The sensor drives ahead at 10 m/s. A point measured 0.1 s earlier becomes 1 m nearer."""
        values, metadata, kinds = self.answered(f"fields=x,y,z,t&time_field=t&{TWIST}")
        self.assertEqual(values, [0, 0, 0, -0.1, 1, 0, 0, 0, 1.5, 0, 0, 0.05])
        self.assertEqual((metadata["time_clamped"], metadata["parameters"]["deskew"]), (0, "twists"))
        self.assertEqual(metadata["parameters"]["deskew_twists"], "0,10,0,0,0,0,0")
        self.assertEqual(kinds, [])

    def test_the_reference_is_the_time_of_the_frame(self):
        values, *_ = self.answered(f"fields=x,y,z,t&time_field=t&{TWIST}&deskew_reference=0.05")
        self.assertEqual(values[::4], [-0.5, 0.5, 1])

    def test_absolute_times_keep_their_differences(self):
        """The times differ by 12.5 ms. Without an origin, all would be 1.7e9 in float32."""
        times = [1700000000 + 0.0125 * i for i in range(8)]
        query = "format=pcd&fields=x,y,z,stamp&time_field=stamp&time_origin="
        for origin in ("first", "1700000000"):
            values, metadata, kinds = self.answered(query + origin, pcd(times))
            self.assertEqual(values[3::4], [round(0.0125 * i, 4) for i in range(8)])
            self.assertNotIn("time_clamped", metadata)  # nothing was moved
            self.assertEqual(kinds, [])
        whole = [1700000000123456789 + 12500000 * i for i in range(8)]
        for kind in ("I 8 q", "U 8 Q"):
            values, *_ = self.answered(query + "first&time_unit=ns", pcd(whole, kind))
            self.assertEqual(values[3::4], [round(0.0125 * i, 4) for i in range(8)])

    def test_without_fields_a_time_is_no_column(self):
        values, *_ = self.answered(f"format=pcd&num_features=3&time_field=STAMP&{TWIST}", pcd([0, 0.1]))
        self.assertEqual(values, [1, 0, 0, 2, 0, 0])
        four = f"format=pcd&num_features=4&time_field=stamp&{TWIST}"
        self.refused("num_features", four, kind="bad-body", body=pcd([0]))

    def test_a_64_bit_column_that_loses_its_differences_gets_a_warning(self):
        times = [1700000000 + 0.0125 * i for i in range(8)]
        for query, body, warned in (
            ("format=pcd&fields=x,y,z,stamp", pcd(times), True),
            ("format=pcd", pcd(times), True),
            ("format=pcd&num_features=3", pcd(times), False),  # the time is not a column of the rows
            ("format=pcd", pcd([time - 1700000000 for time in times]), False),
            ("format=pcd", pcd([1700000000.1] * 8), False),  # all times are equal
            ("format=pcd", pcd([1700000000123456789 + 12500000 * i for i in range(8)], "I 8 q"), True),
            ("format=pcd", pcd([int(1e9) * i for i in range(8)], "U 8 Q"), False),
            ("format=pcd&fields=x,y,z,stamp&time_field=stamp&time_origin=first", pcd(times), False),
        ):
            _, metadata, kinds = self.answered(query, body)
            self.assertEqual("rounded" in kinds, warned, f"{query} {metadata['warnings']}")
        _, metadata, _ = self.answered("format=pcd", pcd(times))
        self.assertIn("column 3", metadata["warnings"][0]["detail"])

    def test_warnings(self):
        base = f"fields=x,y,z,t&time_field=t&{TWIST}"
        for query, body, expected, clamped in (
            (base, floats(*[1, 0, 0, 0.02] * 3), ["times_equal"], 0),
            (base, floats(1, 0, 0, 0.02), [], 0),
            (base + "&time_unit=ms", ROWS, [], 0),
            (base, floats(1, 0, 0, 2, 1, 0, 0, 3), ["times_clamped"], 2),
        ):
            _, metadata, kinds = self.answered(query, body)
            self.assertEqual((kinds, metadata["time_clamped"]), (expected, clamped), f"{query} {metadata['warnings']}")

    def test_a_time_that_is_not_finite(self):
        values, metadata, _ = self.answered(
            f"fields=x,y,z,t&time_field=t&{TWIST}", floats(1, 0, 0, float("nan"), 2, 0, 0, 0)
        )
        self.assertEqual(values, [2, 0, 0, 0])
        self.assertEqual((metadata["points"]["not_finite"], metadata["points"]["kept"]), (1, 1))

    def test_refusals(self):
        base = "fields=x,y,z,t&time_field=t&"
        self.refused("time_field", "time_field=t&" + TWIST, "fields=x,y,z,u&time_field=t", TWIST)
        self.refused("time_field", "fields=x,y,z,t&time_field=x")
        self.refused("time_field", "format=pcd&time_field=t", kind="bad-body", body=pcd([0]))
        self.refused("time_unit", base + "time_unit=m", "time_unit=ms")
        self.refused("time_origin", base + "time_origin=stamp", base + "time_origin=last", base + "time_origin=nan")
        self.refused("deskew_twists", base + "deskew=twists", base + "deskew_twists=0,0,0,0,0,0,0")
        self.refused("deskew_twists", base + "deskew=twists&deskew_twists=0,0,0,0,0,0")
        self.refused("deskew_poses", base + "deskew=poses", base + "deskew=poses&deskew_poses=0,0,0,0,1,0,0,0")
        self.refused("interpolation", base + TWIST + "&interpolation=slerp")
        self.refused("stream", base + "deskew=stream")
        self.refused("mount", base + "mount=0,0,0,1,0,0,0")
        falling = base + "deskew=twists&deskew_twists=1,0,0,0,0,0,0;0,0,0,0,0,0,0"
        fast = base + "deskew=twists&deskew_twists=0,0,0,0,0,0,100"
        self.refused("deskew_twists", falling, fast, status=422, kind="impossible")
        self.refused("deskew_reference", base + TWIST + "&deskew_reference=1", status=422, kind="impossible")
        many = ";".join(f"{i},0,0,0,1,0,0,0" for i in range(70))
        self.refused("deskew_poses", base + "deskew=poses&deskew_poses=" + many, status=422, kind="impossible")
        skew = "0,0,0,0,1,0,0,0;1,0,0,0,1,1,0,0"
        self.refused("deskew_poses", base + "deskew=poses&deskew_poses=" + skew, status=422, kind="not-rigid")

    def test_a_stream_keeps_corrected_sweeps_and_nothing_of_an_error(self):
        def send(number, more="", status=200):
            query = f"fields=x,y,z,t&time_field=t&stream=moving&sweeps=2&time={number / 10}"
            query += f"&pose={SIXTEEN.format(number)}&deskew=stream{more}"
            reply = self.ask_points(query)
            self.assertEqual(reply.status, status, reply)
            return reply

        first = self.tensors(send(1))
        self.assertEqual([warning["kind"] for warning in first.metadata["warnings"]], ["no_motion", "fewer_sweeps"])
        self.assertEqual(list(first.values("points"))[::4], [1, 1, 1])
        send(2, "&deskew_reference=9", 422)
        streams = self.ask("/v1/streams/moving").json()
        self.assertEqual((streams["kept"], streams["time"]), (1, 0.1))
        for _ in range(2):  # a repeated request is joined with the same earlier sweep
            second = self.tensors(send(2))
            values = [round(value, 5) for value in second.values("points")]
            self.assertEqual(values[::4], [0, 1, 1.5, 0, 0, 0])
        self.assertEqual(second.metadata["warnings"], [])
        last = self.tensors(self.ask("/v1/streams/moving/last"))
        self.assertEqual([round(value, 5) for value in last.values("points")], values)

    def test_a_float16_sweep_is_kept_as_float32(self):
        half = struct.pack("<8e", 1, 0, 0, -0.1, 1, 0, 0, 0)
        query = f"fields=x,y,z,t&time_field=t&dtype=float16&stream=half&time=1&pose=0,0,0,1,0,0,0&{TWIST}"
        self.tensors(self.ask_points(query, half))
        self.assertEqual(self.ask("/v1/streams/half").json()["dtype"], "float32")

    def test_json_has_the_count(self):
        reply = self.ask_points(f"fields=x,y,z,t&time_field=t&{TWIST}", ROWS, JSON)
        self.assertEqual(reply.json()["time_clamped"], 0)


if __name__ == "__main__":
    unittest.main()
