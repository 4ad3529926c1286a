"""Debian's Chromium without a screen, driven by Selenium. It draws WebGL in software, on any machine."""

import base64
import functools
import os
import shutil
import tempfile
import unittest

from daemon import PATIENCE, OneDaemonCase, wait_until

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:  # Python before 3.10
    webdriver = None

PHONE = 390, 844  # CSS pixels

UNUSED = "IsolateOrigins", "site-per-process", "SpareRendererForSitePerProcess", "BackForwardCache"

# A part of the view without buttons or texts, as fractions of its width and height.
LEFT, RIGHT, TOP, BOTTOM = 0.3, 0.95, 0.2, 0.75

# The visible text of an element, as Selenium gives it, in a fourth of the time.
TEXT = """
const one = document.querySelector(arguments[0]);
return one.checkVisibility() ? one.innerText.replace(/ *\\t */g, " ").replace(/\\n\\s*\\n/g, "\\n").trim() : "";
"""
# Waits until the picture is whole and shown. Gives the place of the view's part in the page.
WHOLE = """
const [[left, right, top, bottom], done] = arguments, canvas = document.getElementById("canvas");
const look = () => {
  if (canvas.hasAttribute("data-coarse")) return setTimeout(look, 20);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const { x, y, width, height } = canvas.getBoundingClientRect();
    done({
      x: Math.floor(x + left * width), width: Math.floor((right - left) * width),
      y: Math.floor(y + top * height), height: Math.floor((bottom - top) * height), scale: 1,
    });
  }));
};
look();
"""
# Describes a screenshot. sum: a checksum of its pixels; drawn: the number of pixels that do not have the most frequent
# colour; colours: the number of colours.
LOOK = """
const [text, done] = arguments;
const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
createImageBitmap(new Blob([bytes], {type: "image/png"})).then((image) => {
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const colours = new Map();
  let sum = 0;
  for (const pixel of pixels) {
    sum = (Math.imul(sum, 31) + pixel) | 0;
    colours.set(pixel, (colours.get(pixel) ?? 0) + 1);
  }
  done({sum, drawn: pixels.length - Math.max(...colours.values()), colours: colours.size});
});
"""


def why_not():
    """Why there is no browser here, or None."""
    if not webdriver:
        return "there is no selenium here"
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"there is no {missing[0]} here" if missing else None


class Browser:
    def __init__(self, width=1280, height=710, dark=False, leads_here=None):
        """`leads_here` is a name that resolves to this machine."""
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        self.opened = 0
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        arguments = ["--headless=new", "--app=data:,", "--disable-dev-shm-usage", "--use-angle=swiftshader"]
        arguments += ["--enable-unsafe-swiftshader", "--force-device-scale-factor=1", "--hide-scrollbars"]
        arguments.append("--disable-gpu-compositing")  # the emulated GPU then draws only the canvas, in less time
        # Each page opens in the process of the last one.
        arguments += ["--disable-site-isolation-trials", f"--disable-features={','.join(UNUSED)}"]
        arguments += [f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}/profile"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium refuses to make a sandbox for root
        if dark:
            arguments.append("--force-dark-mode")
        if leads_here:
            arguments.append(f"--host-resolver-rules=MAP {leads_here} 127.0.0.1")
        for argument in arguments:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.add_experimental_option("prefs", {"download.default_directory": self.folder.name})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(PATIENCE)

    def quit(self):
        self.driver.quit()
        self.folder.cleanup()

    def emulate(self, phone=False, dark=False):
        """Makes the browser a phone with a touch screen, or a window, with dark or light colours."""
        send = self.driver.execute_cdp_cmd
        if phone:
            size = {"width": PHONE[0], "height": PHONE[1], "deviceScaleFactor": 2, "mobile": True}
            send("Emulation.setDeviceMetricsOverride", size)
        else:
            send("Emulation.clearDeviceMetricsOverride", {})
        send("Emulation.setTouchEmulationEnabled", {"enabled": phone})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        send("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, daemon, state=""):
        host, port = daemon.address
        path, mark, fragment = state.partition("#")
        self.opened += 1  # in the address, since a new fragment alone would not reload the page
        path += f"{'&' if '?' in path else '?'}opened={self.opened}"
        self.driver.get(f"http://{host}:{port}/{path}{mark}{fragment}")

    def open_with(self, daemon, state="", **files):
        """Opens the page and drops files, as drop() does; the first must be a scan. The page opens with a stream that
        nobody sends, because otherwise it would load its sample scan, which takes a second."""
        self.open(daemon, f"{state or '#'}&view.stream=none")
        self.await_text("#state", "waiting for its first sweep")
        self.drop(**files)
        self.await_text("#state", f"{next(iter(files)).replace('_', '.')}: ")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.run(TEXT, selector)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def await_text(self, selector, part):
        """Waits until the element's text contains `part`. Returns the text."""
        return wait_until(
            lambda: part in (text := self.text(selector)) and text,
            lambda: f"{part!r} in {selector}: {self.text(selector)!r}; {self.text('#error')!r}; {self.messages()}",
        )

    def set(self, selector, value):
        """Gives an input its value, as if a user typed it and left the input."""
        self.run(
            "arguments[0].value = arguments[1];"
            "for (const type of ['input', 'change'])"
            "  arguments[0].dispatchEvent(new Event(type, {bubbles: true}))",
            self.find(selector),
            value,
        )

    def drop(self, **files):
        """Drops files onto the page, given as name_ending=bytes."""
        named = [(".".join(name.rsplit("_", 1)), base64.b64encode(data).decode()) for name, data in files.items()]
        self.run(
            "const data = new DataTransfer();"
            "for (const [name, text] of arguments[0])"
            "  data.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], name));"
            "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))",
            named,
        )

    def picture(self, left=0, right=1, top=0, bottom=1):
        """A screenshot of a part of the view as base64, once the picture is whole."""
        part = self.driver.execute_async_script(WHOLE, [left, right, top, bottom])
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": part, "optimizeForSpeed": True})
        return shot["data"]

    def look(self):
        """The middle of the view, as LOOK describes it."""
        return self.driver.execute_async_script(LOOK, self.picture(LEFT, RIGHT, TOP, BOTTOM))

    def messages(self):
        """The console's warnings and errors since the last call."""
        lines = [line for line in self.driver.get_log("browser") if line["level"] in ("WARNING", "SEVERE")]
        # Without a GPU, Chromium warns that it reads each picture of the canvas back.
        return [line["message"] for line in lines if "GPU stall due to ReadPixels" not in line["message"]]


@functools.cache
def only():
    """The browser that all tests of a file share. It ends after the last test."""
    browser = Browser()
    unittest.addModuleCleanup(browser.quit)
    return browser


def shared():
    """The browser of all tests of a file, with an empty page; to start a browser takes seconds."""
    browser = only()
    browser.driver.get("about:blank")
    browser.emulate()
    browser.messages()
    return browser


class BrowserCase(OneDaemonCase):
    """Tests of one daemon in the browser of their file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = shared()

    def setUp(self):
        self.browser.messages()
