"""The page at /status in a browser: it shows what the service does, follows it as it changes, and tells of errors."""

import re
import threading
import unittest

import browser
from client import VOXELIZE, head, rows
from credentials import daemon_of
from daemon import BACKEND, Daemon, wait_until

CHARTS = ("requests", "refusals", "p50", "p99", "queue", "memory", "clients", "jobs")
BUCKETS = [("0.1", 10), ("0.2", 30), ("0.5", 40), ("+Inf", 50)]
TWO_GPUS = """
const fetched = window.fetch;
const gpu = (index, more) => ({index, name: "GPU of a test", memory_bytes: 2 ** 30, running: 1, answered: 5, ...more});
let jobs = 0;
window.fetch = async (...given) => {
  const answer = await fetched(...given);
  if (given[0] === "/metrics")
    return new Response(await answer.text() + `voxeld_gpu_jobs_total{gpu="1"} ${jobs += 100}\\n`);
  const status = await answer.json();
  status.state = "degraded";
  const devices = [gpu(0, {state: "paused", reason: "out of luck"}), gpu(1, {state: "working"})];
  return new Response(JSON.stringify({...status, backend: {name: "cuda", devices}}));
};
"""


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class Load:
    """Posts scans until the block ends; the service refuses every second one."""

    def __init__(self, daemon, source):
        self.daemon, self.source, self.ended = daemon, source, threading.Event()
        self.thread = threading.Thread(target=self.drive)

    def drive(self):
        body = rows(3000)
        while not self.ended.wait(0.1):  # more would only keep the machine busy
            self.daemon.post(VOXELIZE, body, source=self.source)
            self.daemon.post("/v1/voxelize?max_voxels=0", body, source=self.source)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def head_of_upload(*lines):
    """The head of a request with 10,000 rows."""
    return head("POST", VOXELIZE, "Content-Length: 160000", *lines)


def open_page(window, daemon):
    window.open(daemon, "status")
    window.await_text("#state", "ready")
    window.set("#every", "1")


def table(window, chart):
    pairs = window.run(
        "return [...document.querySelectorAll(arguments[0])].map("
        "(row) => [...row.cells].map((cell) => cell.innerText))",
        f"#{chart} tr",
    )
    return dict(pair for pair in pairs if pair != ["none", ""])


def rate(text):
    return float(text.replace(",", "")) if re.fullmatch(r"[\d.,]+", text or "") else 0


def contrast(one, other):
    def luminance(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class StatusPage(browser.BrowserCase):
    def open(self):
        open_page(self.browser, self.daemon)

    def now(self, name):
        lines = self.browser.text("#now").splitlines()
        return lines[lines.index(name) + 1]

    def await_value(self, chart, name, holds):
        seen = lambda: table(self.browser, chart)
        wait_until(lambda: holds(rate(seen().get(name))), lambda: f"another {name} in {chart}: {seen()}")

    def test_it_opens_and_breaks_no_rule_of_its_own(self):
        self.open()
        self.assertEqual(self.now("Version"), self.daemon.status()["version"])
        self.assertIn(self.daemon.status()["backend"]["devices"][0]["name"], self.browser.text("#devices"))
        wait_until(lambda: len(self.browser.run("return document.querySelectorAll('#queue path')")) == 7, "7 lines")
        self.assertFalse(self.browser.find("#error").is_displayed())
        self.assertEqual(self.browser.messages(), [])
        loaded = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        host, port = self.daemon.address
        self.assertIn(f"http://{host}:{port}/ui/status.js", loaded)
        self.assertEqual([name for name in loaded if not name.startswith(f"http://{host}:{port}/")], [])

    def test_the_pages_link_to_each_other(self):
        pages = "/", "/status", "/docs"
        for page in pages:
            links = re.findall(r'<a href="([^"]*)">', self.daemon.get(page).body.decode())
            self.assertEqual(links, [other for other in pages if other != page])

    def test_charts_follow_the_load(self):
        self.open()
        with Load(self.daemon, "127.0.0.2"), Load(self.daemon, "127.0.0.3"):
            self.await_value("requests", "/v1/voxelize", lambda value: value > 0)
            self.await_value("refusals", "bad-parameter", lambda value: value > 0)
            self.await_value("jobs", "cpu" if BACKEND == "cpu" else "cuda", lambda value: value > 0)
            for chart in ("p50", "p99"):
                stages = wait_until(lambda: table(self.browser, chart), f"stages in {chart}")
                self.assertLessEqual({"receive", "queue", "voxelize", "total", "send"}, set(stages))
                for stage, text in stages.items():
                    self.assertRegex(text, r"^[\d.]+ (µs|ms|s)$", f"{chart} of {stage}")
            self.assertGreater(rate(self.now("Requests a second")), 0)
            before = self.line("requests")
            wait_until(lambda: self.line("requests") != before, "another line")
            label = self.browser.find("#requests svg").get_attribute("aria-label")
            self.assertRegex(label, r"^Requests: .*/v1/voxelize [\d.]+")
        self.await_value("requests", "/v1/voxelize", lambda value: value == 0)
        self.assertNotIn("/metrics", table(self.browser, "requests"))
        self.assertEqual(self.browser.messages(), [])

    def test_a_client_is_shown_with_what_it_holds(self):
        self.open()
        with self.daemon.socket(source="127.0.0.4") as upload:
            upload.sendall(head_of_upload() + rows(5000))
            wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"], "memory in use")
            shown = lambda: self.browser.run(
                "return [...document.querySelectorAll('#shares tr')].find("
                "(row) => row.innerText.startsWith('127.0.0.4'))"
                "?.innerText"
            )
            text = wait_until(lambda: re.search(r"1 of 1,000.*1 of 1,024.*[KM]iB of 2 GiB", shown() or ""), "its row")[
                0
            ]
            self.assertNotIn("0 B", text)
        wait_until(lambda: not shown(), "no row of a client that is gone")

    def test_pause_and_the_cursor_obey_the_keyboard(self):
        self.open()
        wait_until(lambda: len(self.points("queue")) >= 3, "three scrapes")
        self.browser.find("#pause").send_keys("\ue007")
        self.assertEqual(self.browser.find("#pause").get_attribute("aria-pressed"), "true")
        drawing = self.browser.find("#memory svg")
        cursors = lambda: self.browser.run(
            "return [...document.querySelectorAll('.cursor')].map((line) => Number(line.getAttribute('x1')))"
        )
        drawing.send_keys("\ue012")  # left
        first = cursors()
        self.assertEqual(len(set(first)), 1)
        self.assertEqual(len(first), len(CHARTS))
        drawing.send_keys("\ue012")
        self.assertLess(cursors()[0], first[0])
        drawing.send_keys("\ue014")  # right
        self.assertEqual(cursors(), first)
        drawing.send_keys("\ue00c")  # escape
        self.assertEqual(cursors(), [])
        self.browser.find("#pause").click()
        count = len(self.points("queue"))
        wait_until(lambda: len(self.points("queue")) > count, "another scrape")

    def axis(self, chart):
        """For each label of the time axis: its text, its middle as a part of the chart's width, and whether its left
        and right ends are inside the chart."""
        return self.browser.run(
            "const {left, width} = document.querySelector(`#${arguments[0]} .plot`).getBoundingClientRect();"
            "return [...document.querySelectorAll(`#${arguments[0]} .axis span`)].map((one) => {"
            "  const area = one.getBoundingClientRect();"
            "  return [one.textContent, ((area.left + area.right) / 2 - left) / width, area.left >= left - 1,"
            "          area.right <= left + width + 1]})",
            chart,
        )

    def test_charts_have_a_time_axis(self):
        self.open()
        wait_until(lambda: len(self.points("queue")) >= 3, "three scrapes")
        self.browser.find("#pause").click()
        marks = self.axis("memory")
        self.assertEqual([text for text, *_ in marks], ["now", "−15 s", "−30 s", "−45 s"])
        for i, (_, middle, *inside) in enumerate(marks):
            self.assertAlmostEqual(middle, 1 - i / 4, delta=0.08)
            self.assertEqual(inside, [True, True])
        lines = "return [...document.querySelectorAll('#memory .grid')].map((one) => Number(one.getAttribute('x1')))"
        self.assertLessEqual({600, 450, 300, 150}, set(self.browser.run(lines)))
        self.browser.find("#memory svg").send_keys("\ue012\ue012")  # left, twice
        (mark,) = self.axis("memory")
        self.assertRegex(mark[0], r"^−[1-9] s$")
        self.assertEqual([text for text, *_ in self.axis("jobs")], mark[:1])

    def test_a_long_time_has_few_marks(self):
        found = self.browser.driver.execute_async_script(
            "const done = arguments[0];"
            "import('/ui/chart.js').then(({ Chart }) => {"
            "  const chart = new Chart({id: 'long', title: 'x', unit: 'y', format: String});"
            "  const seen = [60, 75, 150, 300, 600].map((span) => {"
            "    chart.points = [];"
            "    for (const time of [0, span]) chart.add(time, new Map());"
            "    return [...chart.axis.children].map((one) => one.textContent)});"
            "  document.querySelector('#long').remove();"
            "  done(seen)})"
        )
        self.assertEqual([len(marks) for marks in found], [4, 5, 5, 5, 5])
        self.assertEqual(found[2], ["now", "−30 s", "−1 min", "−90 s", "−2 min"])
        self.assertEqual(found[4], ["now", "−2 min", "−4 min", "−6 min", "−8 min"])

    def test_the_rows_of_legends_are_one_line(self):
        self.browser.emulate(phone=True)
        self.addCleanup(self.browser.emulate)
        self.open()
        wait_until(lambda: self.points("queue"), "a scrape")
        heights = self.browser.run(
            "const cell = document.querySelector('#queue tr:last-child th');"
            "cell.append(' and a name that is too long for one line of a chart on a phone');"
            "return [...document.querySelectorAll('#queue tr')].map((row) => row.getBoundingClientRect().height)"
        )
        self.assertEqual(len(set(map(round, heights))), 1, heights)
        titles = "return [...document.querySelectorAll('#queue tr')].map((row) => row.title)"
        self.assertIn("waiting for the same client", self.browser.run(titles))
        widths = "const one = document.querySelector('#queue'); return [one.scrollWidth, one.clientWidth]"
        needed, there = self.browser.run(widths)
        self.assertLessEqual(needed, there)

    def line(self, chart):
        """The chart's first line; "" if there is none."""
        return self.browser.run(
            "return document.querySelector(arguments[0])?.getAttribute('d') ?? ''", f"#{chart} path"
        )

    def points(self, chart):
        return re.findall(r"[ML]", self.line(chart))

    def test_everything_has_a_label_and_colours_stand_out(self):
        self.open()
        nameless = self.browser.run(
            "return [...document.querySelectorAll('input, select, button, svg, meter, section, [tabindex]')].filter("
            "(one) => !one.labels?.length && !one.textContent.trim() && !one.ariaLabel"
            " && !one.hasAttribute('aria-labelledby')).map((one) => one.outerHTML)"
        )
        self.assertEqual(nameless, [])
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            self.browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            back, text, *series = self.browser.run(
                "const colour = (name, value) => {"
                "  document.querySelector('#now').append(Object.assign(document.createElement('i'), {id: 'probe'}));"
                "  probe.style.color = value;"
                "  const found = getComputedStyle(probe).color;"
                "  probe.remove();"
                "  return found};"
                "return ['card', 'soft', ...Array.from({length: 8}, (_, i) => `series-${i}`)].map("
                "  (name) => colour(name, `var(--${name})`))"
            )
            with self.subTest(scheme):
                self.assertEqual(len(set(series)), 8)
                self.assertGreaterEqual(contrast(back, text), 4.5)
                for colour in series:
                    self.assertGreaterEqual(contrast(back, colour), 3, colour)
        self.browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_a_narrow_screen_needs_no_scrolling_sideways(self):
        metrics = {"width": 340, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        self.browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.addCleanup(self.browser.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.open()
        wait_until(lambda: self.points("memory"), "a chart")
        widths = self.browser.run(
            "return [document.documentElement, document.querySelector('main')].map("
            "(one) => [one.scrollWidth, one.clientWidth])"
        )
        for needed, there in widths:
            self.assertLessEqual(needed, there)
            self.assertLessEqual(there, 340)

    def test_two_gpus(self):
        script = {"source": TWO_GPUS}
        added = self.browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
        self.addCleanup(self.browser.driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added)
        self.browser.open(self.daemon, "status")
        self.browser.await_text("#state", "degraded")
        shown = self.browser.text("#devices")
        self.assertIn("0: GPU of a test paused: out of luck 1 5 1 GiB", shown)
        self.assertIn("1: GPU of a test working", shown)
        self.await_value("jobs", "GPU 1", lambda value: value > 0)


class Computed(browser.BrowserCase):
    def compute(self, expression, *texts):
        """The expression over `before` and `now`, scrapes at 10 s and 14 s, and the exports of scrape.js."""
        return self.browser.driver.execute_async_script(
            "const [expression, texts, done] = arguments;"
            "import('/ui/scrape.js').then((of) => {"
            "  const [before, now] = texts.map((text, i) => new of.Scrape(10 + 4 * i, text));"
            f"  const value = {expression};"
            "  done(value instanceof Map ? Object.fromEntries(value) : value)}).catch((error) => done(String(error)))",
            expression,
            texts,
        )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        open_page(cls.browser, cls.daemon)

    def test_rates(self):
        before = 'a_total{x="1",y="p"} 10\na_total{x="1",y="q"} 1\na_total{x="2",y="p"} 5\n'
        now = '# HELP a_total 9\na_total{x="1",y="p"} 20\na_total{x="1",y="q"} 3\na_total{x="3",y="p \\"} 8"} 8\n'
        self.assertEqual(self.compute("of.rates(before, now, 'a_total', 'x')", before, now), {"1": 3, "3": 2})
        self.assertEqual(self.compute("of.total(of.rates(before, now, 'none', 'x'))", before, now), 0)
        self.assertEqual(self.compute("now.value('a_total', 'y', 'p')", before, now), 20)

    def test_quantiles(self):
        line = lambda pairs, factor: "".join(f'h_bucket{{s="a",le="{le}"}} {n * factor}\n' for le, n in pairs)
        empty = "".join(f'h_bucket{{s="idle",le="{le}"}} 7\n' for le, _ in BUCKETS)
        before, now = line(BUCKETS, 1) + empty, line(BUCKETS, 2) + empty
        # Between the scrapes the buckets get 10, 20, 10 and 10 observations.
        for part, expected in ((0.1, 0.05), (0.2, 0.1), (0.5, 0.175), (0.7, 0.35), (0.99, 0.5)):
            with self.subTest(part):
                found = self.compute(f"of.quantiles(before, now, 'h', 's', {part})", before, now)
                self.assertEqual(set(found), {"a"})
                self.assertAlmostEqual(found["a"], expected)

    def test_a_new_process_is_no_growth(self):
        first, second = (f"process_start_time_seconds {start}\n" for start in (5, 6))
        self.assertIs(self.compute("now.follows(before)", first, first), True)
        self.assertIs(self.compute("now.follows(before)", first, second), False)

    def test_numbers_are_written_for_readers(self):
        found = self.browser.driver.execute_async_script(
            "const done = arguments[0];"
            "import('/ui/units.js').then((of) => done([of.plain(1234.5), of.plain(undefined), of.seconds(2.5),"
            "  of.seconds(0.0125), of.seconds(0.00002), of.bytes(0), of.bytes(1536), of.bytes(2 ** 31),"
            "  of.duration(0.4), of.duration(59), of.duration(3700), of.duration(90000)]))"
        )
        self.assertEqual(found, ["1,230", "–", "2.5 s", "12.5 ms", "20 µs", "0 B", "1.5 KiB", "2 GiB",
                                 "0 s", "59 s", "1 h 1 min", "1 d 1 h"])  # fmt: skip


class Errors(unittest.TestCase):
    def test_a_service_that_wants_a_token(self):
        window = browser.shared()
        with daemon_of("alice") as (daemon, token):
            window.open(daemon, "status")
            window.await_text("#state", "the service wants a token")
            self.assertIn("token", window.text("#error").lower())
            self.assertEqual(window.run("return document.activeElement.id"), "token")
            window.set("#token", "wrong")
            window.await_text("#error", "known")
            window.set("#token", token)
            window.await_text("#state", "ready")
            self.assertFalse(window.find("#error").is_displayed())
            with daemon.socket() as upload:
                upload.sendall(head_of_upload(f"Authorization: Bearer {token}") + rows(5000))
                window.await_text("#shares", "user:alice")
            self.assertNotIn(token, window.driver.current_url)

    def test_a_service_that_stops(self):
        daemon, window = Daemon("--drain-delay-s", "3600"), browser.shared()
        self.addCleanup(daemon.kill)
        open_page(window, daemon)
        daemon.terminate()
        window.await_text("#state", "leaving")
        self.assertFalse(window.find("#error").is_displayed())
        self.assertEqual([text for text in window.messages() if "ERR_CONNECTION" not in text], [])
        daemon.terminate()  # a second signal ends it at once
        window.await_text("#state", "No answer")
        self.assertIn("cannot be reached", window.text("#error"))

    def test_a_service_that_starts_anew(self):
        window = browser.shared()
        with Daemon() as daemon:
            with Load(daemon, "127.0.0.2"):
                open_page(window, daemon)
                wait_until(lambda: "/v1/voxelize" in table(window, "requests"), "requests")
            address = ":".join(map(str, daemon.address))
        window.await_text("#state", "No answer")
        with Daemon("--listen", address):
            window.await_text("#state", "ready")
            wait_until(lambda: table(window, "requests").get("/v1/voxelize") in (None, "–", "0"), "no requests")


if __name__ == "__main__":
    unittest.main()
