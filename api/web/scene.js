// Draws points, voxels and lines with WebGL 2.

const COLOUR = `
  uniform sampler2D ramp;
  uniform vec2 range;
  vec3 colour_of(float value) {
    return texture(ramp, vec2(clamp((value - range.x) / (range.y - range.x), 0.002, 0.998), 0.5)).rgb;
  }`;

const FRAGMENT = `#version 300 es
  precision mediump float;
  in vec3 colour;
  out vec4 result;
  void main() { result = vec4(colour, 1); }`;

const POINTS = `#version 300 es
  layout(location = 0) in vec3 place;
  layout(location = 1) in float value;
  uniform mat4 view;
  uniform float size;
  uniform vec4 plain; // a colour and 1 for samples, else 0
  out vec3 colour;
  ${COLOUR}
  void main() {
    gl_Position = view * vec4(place, 1);
    gl_PointSize = size;
    colour = plain.a > 0.0 ? plain.rgb : colour_of(value);
  }`;

// The shader reads voxels from textures, by gl_VertexID: instances are far slower without a GPU. It draws the three
// faces that face the eye: in `corners`, 1 is the side of the eye. The shade tells the directions of faces apart.
const WIDTH = 2048; // of the textures
const BOXES = (corners, number) => `#version 300 es
  const vec4 corners[${number}] = vec4[](${corners}); // x, y, z, shade
  uniform highp isampler2D cells; // batch, z, y, x
  uniform highp sampler2D values;
  uniform mat4 view;
  uniform vec3 low, size, eye;
  uniform int picked, stride;
  out vec3 colour;
  out highp vec3 inside;
  ${COLOUR}
  void main() {
    int voxel = gl_VertexID / ${number} * stride;
    vec4 corner = corners[gl_VertexID % ${number}];
    ivec2 texel = ivec2(voxel % ${WIDTH}, voxel / ${WIDTH});
    bool chosen = voxel == picked;
    vec3 centre = low + (vec3(texelFetch(cells, texel, 0).wzy) + 0.5) * size;
    vec3 facing = 2.0 * step(centre, eye) - 1.0;
    gl_Position = view * vec4(centre + (corner.xyz - 0.5) * facing * (chosen ? 1.15 : 1.0) * size, 1);
    colour = corner.w * (chosen ? vec3(1, 0.2, 0.2) : colour_of(texelFetch(values, texel, 0).r));
    inside = corner.xyz;
  }`;

// Mixes the background into the edges of a face, so that neighbouring voxels of one colour can be told apart. On a face
// the smallest distance to a side is 0, so the middle one of the three distances is that to the nearest edge. Faces of
// a few pixels have no edges.
const FACES = `#version 300 es
  precision highp float;
  in vec3 colour;
  in vec3 inside; // from 0 to 1 along each axis
  uniform vec3 background;
  out vec4 result;
  float middle(vec3 v) { return max(min(v.x, v.y), min(max(v.x, v.y), v.z)); }
  void main() {
    vec3 pixels = 1.0 / max(fwidth(inside), 1e-6); // of the whole face, along each axis
    float edge = 1.0 - smoothstep(0.5, 1.5, middle(min(inside, 1.0 - inside) * pixels));
    float narrow = min(pixels.x, min(pixels.y, pixels.z));
    result = vec4(mix(colour, background, 0.6 * edge * smoothstep(2.0, 10.0, narrow)), 1);
  }`;

// A line is a rectangle, since WebGL's own lines are one pixel wide. The shader cuts it at the near plane and at twice
// the width and height of the view, because ends far outside would spoil the precision of depths.
const LINES = `#version 300 es
  layout(location = 0) in vec3 begin;
  layout(location = 1) in vec3 end;
  layout(location = 2) in vec3 own;
  uniform mat4 view;
  uniform vec2 pixels; // of the picture
  uniform float size;
  uniform vec4 plain; // a colour and 1; 0 if each line has its own colour
  out vec3 colour;
  const vec4 planes[5] = // a place is inside if all products are 0 or more
    vec4[](vec4(0, 0, 1, 1), vec4(1, 0, 0, 2), vec4(-1, 0, 0, 2), vec4(0, 1, 0, 2), vec4(0, -1, 0, 2));
  void main() {
    vec4 a = view * vec4(begin, 1), b = view * vec4(end, 1);
    float first = 0.0, last = 1.0; // drawn part of the line
    for (int i = 0; i < 5; i++) {
      float of_a = dot(planes[i], a), of_b = dot(planes[i], b), met = of_a / (of_a - of_b);
      if (of_a < 0.0) first = of_b > 0.0 ? max(first, met) : 1.0;
      else if (of_b < 0.0) last = min(last, met);
    }
    vec4 begun = mix(a, b, min(first, last));
    b = mix(a, b, last);
    a = begun;
    vec2 along = normalize((b.xy / b.w - a.xy / a.w) * pixels + 1e-9);
    vec2 aside = vec2(-along.y, along.x) * size / pixels * (gl_VertexID % 2 == 0 ? 1.0 : -1.0);
    vec4 at = gl_VertexID < 2 ? a : b;
    gl_Position = at + vec4(aside * at.w, 0, 0);
    colour = plain.a > 0.0 ? plain.rgb : own;
  }`;

const FEW = 10; // a coarse picture has every tenth point and voxel; a stride is at most 255 bytes
const SAMPLE = [0.95, 0.15, 0.55, 1], RANGE = [0.85, 0.35, 0.2, 1], OWN = [0, 0, 0, 0];
const BOX_WIDTH = 2, RIM = 2; // CSS pixels; the rim has the colour of the background

const corner = (number) => [number & 1, (number >> 1) & 1, (number >> 2) & 1];
export const edges = [0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 1, 3, 4, 6, 5, 7, 0, 4, 1, 5, 2, 6, 3, 7].map(corner);

// [x, y, z, shade] of the corners of two triangles for each of three faces.
const faces = [[0, 0.8], [1, 0.68], [2, 1]].flatMap(([axis, shade]) =>
  [[0, 0], [1, 0], [0, 1], [0, 1], [1, 0], [1, 1]].map(([u, v]) => {
    const place = [];
    [place[axis], place[(axis + 1) % 3], place[(axis + 2) % 3]] = [1, u, v];
    return [...place, shade];
  }));
const boxes = { faces, edges: edges.map((at) => [...at, 1]) };
const vectors = (corners) => corners.map((one) => `vec4(${one})`).join(", ");

const boxLines = (low, high) => edges.flatMap((at) => at.map((one, axis) => (one ? high : low)[axis]));

// Squares of 10 m on the floor of a box; of 100 m or more if the box is longer than a kilometre.
function gridLines([x0, y0, z], [x1, y1]) {
  const lines = [];
  const step = Math.max(10, 10 ** Math.ceil(Math.log10((x1 - x0) / 100)));
  for (let x = Math.ceil(x0 / step) * step; x <= x1; x += step) lines.push(x, y0, z, x, y1, z);
  for (let y = Math.ceil(y0 / step) * step; y <= y1; y += step) lines.push(x0, y, z, x1, y, z);
  return lines;
}

export class Scene {
  constructor(canvas) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: false });
    if (!this.gl) throw new Error("this browser has no WebGL 2");
    this.show = { points: true, faces: true, edges: false, samples: true, boxes: true, box: true };
    this.pointSize = 2;
    this.picked = -1;
    this.range = [0, 1];
    this.background = [1, 1, 1];
    this.begin();
    // After a reset of the driver all buffers are lost, and the owner must pass the data again.
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.begin();
      this.restored?.();
    });
  }

  begin() {
    const gl = this.gl;
    this.programs = { points: this.program(POINTS), lines: this.program(LINES) };
    for (const [name, corners] of Object.entries(boxes))
      this.programs[name] = this.program(BOXES(vectors(corners), corners.length), name === "faces" ? FACES : FRAGMENT);
    this.arrays = {};
    this.buffers = {};
    for (const name of ["place", "value", "box", "boxes", "grid", "sample"])
      this.buffers[name] = gl.createBuffer();
    for (const name of ["grid", "box"]) this.vertexArray(name, [[0, name, 24, 0], [1, name, 24, 12]], 1);
    this.vertexArray("boxes", [[0, "boxes", 36, 0], [1, "boxes", 36, 12], [2, "boxes", 36, 24]], 1);
    this.vertexArray("samples", [[0, "sample", 12, 0]]);
    for (const step of [1, FEW])
      this.vertexArray(`points${step}`, [[0, "place", 12 * step, 0], [1, "value", 4 * step, 0, 1]]);
    this.arrays.none = gl.createVertexArray();
    this.counts = { points: 0, voxels: 0, samples: 0, box: 0, grid: 0, boxes: 0 };
    this.textures = ["ramp", "cells", "values"].map(() => gl.createTexture());
    this.textures.forEach((texture, unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    });
  }

  program(vertex, fragment = FRAGMENT) {
    const gl = this.gl;
    const program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(`WebGL: ${gl.getProgramInfoLog(program)}`);
    const at = {};
    for (const name of ["view", "size", "low", "eye", "range", "plain", "picked", "stride", "pixels", "background"])
      at[name] = gl.getUniformLocation(program, name);
    gl.useProgram(program);
    for (const [unit, name] of ["ramp", "cells", "values"].entries())
      gl.uniform1i(gl.getUniformLocation(program, name), unit);
    return { program, at };
  }

  // `rows`: [location, buffer, stride, offset, components]. A divisor of 1 gives all vertices of a line the same
  // values.
  vertexArray(name, rows, divisor = 0) {
    const gl = this.gl;
    this.arrays[name] = gl.createVertexArray();
    gl.bindVertexArray(this.arrays[name]);
    for (const [location, buffer, stride, offset, components = 3] of rows) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, components, gl.FLOAT, false, stride, offset);
      gl.vertexAttribDivisor(location, divisor);
    }
    gl.bindVertexArray(null);
  }

  // `parts`: components of a texel.
  fillTexture(unit, data, parts, internal, format, type) {
    const gl = this.gl;
    const texels = data.length / parts, rows = Math.floor(texels / WIDTH), rest = texels % WIDTH;
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.texImage2D(gl.TEXTURE_2D, 0, internal, WIDTH, rows + 1, 0, format, type, null);
    if (rows) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, WIDTH, rows, format, type, data);
    if (rest) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, rows, rest, 1, format, type, data, rows * WIDTH * parts);
  }

  fill(buffer, data) {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
  }

  setPoints(points, columns) {
    this.counts.points = this.fillPlaces("place", points, columns);
  }

  // Fills a buffer with x, y, z of rows. Returns the number of rows.
  fillPlaces(buffer, rows, columns) {
    const number = rows.length / columns;
    const places = new Float32Array(3 * number);
    for (let i = 0; i < number; i++)
      for (let axis = 0; axis < 3; axis++) places[3 * i + axis] = rows[i * columns + axis];
    this.fill(buffer, places);
    return number;
  }

  // `cells`: rows of voxel_coords: batch, z, y, x.
  setVoxels(cells, low, size) {
    const gl = this.gl;
    this.fillTexture(1, cells, 4, gl.RGBA32I, gl.RGBA_INTEGER, gl.INT);
    Object.assign(this, { low, size, picked: -1 });
    this.counts.voxels = cells.length / 4;
  }

  setSamples(points, columns) {
    this.counts.samples = this.fillPlaces("sample", points, columns);
  }

  // Rows of nine: both ends of a line, and its colour.
  setBoxes(lines) {
    this.fill("boxes", lines);
    this.counts.boxes = lines.length / 9;
  }

  setBox(low, high) {
    for (const [name, lines] of [["box", boxLines(low, high)], ["grid", gridLines(low, high)]]) {
      this.fill(name, new Float32Array(lines));
      this.counts[name] = lines.length / 6;
    }
  }

  setValues({ ofPoints, ofVoxels, range }, ramp) {
    const gl = this.gl;
    this.fill("value", ofPoints);
    this.fillTexture(2, ofVoxels, 1, gl.R32F, gl.RED, gl.FLOAT);
    this.range = range;
    gl.activeTexture(gl.TEXTURE0);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, ramp.length / 4, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, ramp);
  }

  use(name, matrix) {
    const { program, at } = this.programs[name];
    const gl = this.gl;
    gl.useProgram(program);
    gl.uniformMatrix4fv(at.view, false, matrix);
    gl.uniform2fv(at.range, this.range);
    return at;
  }

  drawLines(name, matrix, plain, width = 1) {
    const gl = this.gl;
    const at = this.use("lines", matrix);
    gl.uniform4fv(at.plain, plain);
    gl.uniform1f(at.size, width * this.scale);
    gl.uniform2f(at.pixels, this.canvas.width, this.canvas.height);
    gl.bindVertexArray(this.arrays[name]);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.counts[name]);
  }

  drawPoints(name, matrix, plain, size, count) {
    const gl = this.gl;
    const at = this.use("points", matrix);
    gl.uniform4fv(at.plain, plain);
    gl.uniform1f(at.size, size * this.scale);
    gl.bindVertexArray(this.arrays[name]);
    gl.drawArrays(gl.POINTS, 0, count);
  }

  drawVoxels(name, matrix, eye, step) {
    const gl = this.gl;
    const number = Math.floor(this.counts.voxels / step);
    const at = this.use(name, matrix);
    gl.uniform3fv(at.low, this.low);
    gl.uniform3fv(at.size, this.size);
    gl.uniform3fv(at.eye, eye);
    gl.uniform1i(at.picked, this.picked);
    gl.uniform1i(at.stride, step);
    gl.uniform3fv(at.background, this.background);
    gl.bindVertexArray(this.arrays.none);
    gl.drawArrays(name === "faces" ? gl.TRIANGLES : gl.LINES, 0, number * boxes[name].length);
  }

  // Milliseconds that a picture takes; readPixels waits for it.
  measure(camera, coarse) {
    const gl = this.gl;
    const begin = performance.now();
    this.draw(camera, coarse);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    return performance.now() - begin;
  }

  draw(camera, coarse = false) {
    const gl = this.gl;
    const step = coarse ? FEW : 1;
    this.canvas.toggleAttribute("data-coarse", coarse);
    const { canvas, show, counts } = this;
    const scale = this.scale = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(...this.background, 1);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const matrix = camera.matrix(width / height);
    const faint = this.background.map((value) => value * 0.7 + 0.5 * 0.3);
    if (show.box) this.drawLines("grid", matrix, [...faint, 1]);
    if (show.box) this.drawLines("box", matrix, RANGE);
    if (show.points) this.drawPoints(`points${step}`, matrix, OWN, this.pointSize, Math.floor(counts.points / step));
    for (const name of ["faces", "edges"])
      if (show[name] && counts.voxels) this.drawVoxels(name, matrix, camera.eye(), step);
    gl.disable(gl.DEPTH_TEST); // voxels and points shall not hide samples and boxes
    if (show.samples) this.drawPoints("samples", matrix, SAMPLE, this.pointSize + 2, counts.samples);
    if (show.boxes) this.drawLines("boxes", matrix, [...this.background, 1], BOX_WIDTH + RIM);
    if (show.boxes) this.drawLines("boxes", matrix, OWN, BOX_WIDTH);
    gl.bindVertexArray(null);
  }
}
