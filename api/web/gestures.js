// Turns pointers and keys on the canvas into moves of the camera and picks.

const CLICK = 4; // pixels that the pointer may move during a click
const KEY_TURN = 0.1, KEY_MOVE = 0.05, KEY_ZOOM = 1.15;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const LOOKS = { r: "reset", t: "top", s: "side" };

// redraw(): after each move. done(): after the last move of a gesture. pickAt(x, y): after a click, x and y from -1 to
// 1.
export function watchCanvas(canvas, camera, { redraw, done, pickAt }) {
  const fingers = new Map(); // pointer id -> its last event
  let wandered = 0;

  function drag(event, before) {
    const [x, y] = [event.clientX - before.clientX, event.clientY - before.clientY];
    const side = Math.min(canvas.clientWidth, canvas.clientHeight);
    wandered += Math.abs(x) + Math.abs(y);
    if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, last]) => last);
      const apart = ({ clientX, clientY }) => Math.hypot(clientX - other.clientX, clientY - other.clientY) || 1;
      camera.zoom(apart(before) / apart(event));
      camera.pan(x / 2 / side, y / 2 / side);
    } else if (event.shiftKey || event.buttons & 6) camera.pan(x / side, y / side);
    else camera.orbit(x / 200, y / 200);
    redraw();
  }

  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!fingers.size) wandered = 0;
    fingers.set(event.pointerId, event);
  };
  canvas.onpointermove = (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    drag(event, before);
    fingers.set(event.pointerId, event);
  };
  canvas.onpointerup = canvas.onpointercancel = (event) => {
    if (!fingers.delete(event.pointerId) || fingers.size) return;
    if (wandered > CLICK) return done();
    if (event.type === "pointercancel") return;
    const area = canvas.getBoundingClientRect();
    pickAt((2 * (event.clientX - area.left)) / area.width - 1, 1 - (2 * (event.clientY - area.top)) / area.height);
  };
  canvas.oncontextmenu = (event) => event.preventDefault();

  let resting = 0;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 500));
    redraw();
    clearTimeout(resting);
    resting = setTimeout(done, 300);
  }, { passive: false });

  canvas.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    const look = LOOKS[event.key.toLowerCase()];
    if (arrow && event.shiftKey) camera.pan(arrow[0] * KEY_MOVE, arrow[1] * KEY_MOVE);
    else if (arrow) camera.orbit(arrow[0] * KEY_TURN, arrow[1] * KEY_TURN);
    else if (event.key === "+" || event.key === "=") camera.zoom(1 / KEY_ZOOM);
    else if (event.key === "-") camera.zoom(KEY_ZOOM);
    else if (look) camera.look(look);
    else return;
    event.preventDefault();
    redraw();
    done();
  };
}
