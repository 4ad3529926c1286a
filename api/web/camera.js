// A camera that orbits around a target. z is up; angles are radians, lengths metres.

const FIELD = Math.PI / 4; // of view, along the shorter side of the picture
const STEEPEST = Math.PI / 2 - 0.001; // looking straight down, no direction is up

const tall = matchMedia("(orientation: portrait)"); // then a steeper view shows more of the ground

const subtract = (a, b) => a.map((value, i) => value - b[i]);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

function unit(a) {
  const length = Math.hypot(...a) || 1;
  return a.map((value) => value / length);
}

export class Camera {
  constructor() {
    this.home = [0, 0, 0, 100];
    this.look("reset");
  }

  // Sets the target and the distance for look(). Moves there if `move`, unless the user has moved the camera.
  frame(target, distance, move) {
    this.home = [...target, distance];
    if (move && !this.moved) this.look("reset");
  }

  look(name) {
    const reset = [-2.6, tall.matches ? 0.8 : 0.42];
    const [yaw, pitch] = { top: [-Math.PI, STEEPEST], side: [-Math.PI / 2, 0.02], reset }[name];
    Object.assign(this, { yaw, pitch, target: this.home.slice(0, 3), distance: this.home[3], moved: name !== "reset" });
  }

  orbit(x, y) {
    this.yaw -= x;
    this.pitch = Math.min(STEEPEST, Math.max(-STEEPEST, this.pitch + y));
    this.moved = true;
  }

  // x and y: parts of the view's shorter side.
  pan(x, y) {
    const { right, up } = this.axes();
    const scale = 2 * this.distance * Math.tan(FIELD / 2);
    this.target = this.target.map((value, i) => value - scale * (x * right[i] - y * up[i]));
    this.moved = true;
  }

  zoom(factor) {
    this.distance = Math.min(1e5, Math.max(0.05, this.distance * factor));
    this.moved = true;
  }

  eye() {
    const flat = Math.cos(this.pitch);
    const away = [Math.cos(this.yaw) * flat, Math.sin(this.yaw) * flat, Math.sin(this.pitch)];
    return this.target.map((value, i) => value + this.distance * away[i]);
  }

  axes() {
    const back = unit(subtract(this.eye(), this.target));
    const right = unit(cross([0, 0, 1], back));
    return { right, up: cross(back, right), back };
  }

  // From world to clip space, column by column.
  matrix(aspect) {
    const eye = this.eye();
    const { right, up, back } = this.axes();
    const near = this.distance / 500, far = this.distance * 20 + 500;
    const deep = (far + near) / (near - far), offset = (2 * far * near) / (near - far);
    const high = Math.min(1, aspect) / Math.tan(FIELD / 2);
    const shift = [-dot(right, eye), -dot(up, eye), -dot(back, eye)];
    const column = (x, y, z, w) => [(high / aspect) * x, high * y, deep * z + offset * w, -z];
    return new Float32Array([0, 1, 2].flatMap((i) => column(right[i], up[i], back[i], 0)).concat(column(...shift, 1)));
  }

  // x and y in the view, from -1 to 1, right and up; null behind the eye.
  project(place, aspect) {
    const matrix = this.matrix(aspect);
    const [x, y, , w] = [0, 1, 2, 3].map((row) =>
      matrix[12 + row] + place.reduce((sum, value, i) => sum + matrix[4 * i + row] * value, 0));
    return w > 0 ? [x / w, y / w] : null;
  }

  // The ray through x and y of the view, from -1 to 1, right and up.
  ray(x, y, aspect) {
    const { right, up, back } = this.axes();
    const high = Math.tan(FIELD / 2) / Math.min(1, aspect);
    return { from: this.eye(), along: unit(right.map((r, i) => x * high * aspect * r + y * high * up[i] - back[i])) };
  }

  // The state as text for the URL; restore() reads it.
  toString() {
    return [this.yaw, this.pitch, this.distance, ...this.target].map((value) => +value.toPrecision(5)).join(",");
  }

  restore(text) {
    const values = text.split(",").map(Number);
    if (values.length !== 6 || !values.every(Number.isFinite)) return;
    [this.yaw, this.pitch, this.distance, ...this.target] = values;
    this.moved = true;
  }
}
