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
  out vec3 colour;
  ${COLOUR}
  void main() {
    gl_Position = view * vec4(place, 1);
    gl_PointSize = size;
    colour = colour_of(value);
  }`;

// One instance a voxel. Of a box only the three faces towards the eye are drawn: `corner` has 1 on the eye's side of
// each axis. Without a GPU, vertices are what takes time. Faces are shaded by their direction, so edges show.
const BOXES = `#version 300 es
  layout(location = 0) in vec3 corner;
  layout(location = 1) in float value;
  layout(location = 2) in ivec3 cell; // z, y, x
  layout(location = 3) in float shade;
  uniform mat4 view;
  uniform vec3 low, size, eye;
  uniform int picked;
  out vec3 colour;
  ${COLOUR}
  void main() {
    bool chosen = gl_InstanceID == picked;
    vec3 centre = low + (vec3(cell.zyx) + 0.5) * size;
    vec3 facing = 2.0 * step(centre, eye) - 1.0;
    gl_Position = view * vec4(centre + (corner - 0.5) * facing * (chosen ? 1.15 : 0.96) * size, 1);
    colour = chosen ? vec3(1, 0.2, 0.2) * shade : colour_of(value) * shade;
  }`;

const LINES = `#version 300 es
  layout(location = 0) in vec3 place;
  uniform mat4 view;
  uniform vec3 plain;
  uniform float size; // of samples, which are points
  out vec3 colour;
  void main() {
    gl_Position = view * vec4(place, 1);
    gl_PointSize = size;
    colour = plain;
  }`;

const SAMPLE = [0.95, 0.15, 0.55], RANGE = [0.85, 0.35, 0.2];

const corner = (number) => [number & 1, (number >> 1) & 1, (number >> 2) & 1];
const edges = [0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 1, 3, 4, 6, 5, 7, 0, 4, 1, 5, 2, 6, 3, 7].map(corner);

// The four corners of each of three faces, with a shade, and the triangles between them.
function threeFaces() {
  const corners = [], triangles = [];
  for (const [axis, shade] of [[0, 0.8], [1, 0.68], [2, 1]])
    for (const [u, v] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
      const place = [];
      [place[axis], place[(axis + 1) % 3], place[(axis + 2) % 3]] = [1, u, v];
      corners.push(...place, shade);
    }
  for (const face of [0, 4, 8]) triangles.push(...[0, 1, 2, 2, 1, 3].map((one) => face + one));
  return { corners: new Float32Array(corners), triangles: new Uint8Array(triangles) };
}

const boxLines = (low, high) => edges.flatMap((at) => at.map((one, axis) => (one ? high : low)[axis]));

// Squares of ten metres on the floor of a box, and the axes x and y through the sensor.
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
    this.show = { points: true, faces: true, edges: false, samples: true, box: true };
    this.pointSize = 2;
    this.picked = -1;
    this.range = [0, 1];
    this.background = [1, 1, 1];
    this.begin();
    // A driver that was reset takes all buffers with it: the owner hands the data over again.
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.begin();
      this.restored?.();
    });
  }

  begin() {
    const gl = this.gl;
    this.programs = { points: this.program(POINTS), boxes: this.program(BOXES), lines: this.program(LINES) };
    this.arrays = {};
    this.buffers = {};
    for (const name of ["place", "value", "cell", "voxelValue", "box", "grid", "sample", "cube", "wire"])
      this.buffers[name] = gl.createBuffer();
    const { corners, triangles } = threeFaces();
    this.fill("cube", corners);
    this.fill("wire", new Float32Array(edges.flatMap((at) => [...at, 1])));
    this.vertexArray("grid", [[0, "grid", 3, 0]]);
    this.vertexArray("box", [[0, "box", 3, 0]]);
    this.vertexArray("samples", [[0, "sample", 3, 0]]);
    for (const [name, shape] of [["faces", "cube"], ["edges", "wire"]])
      this.vertexArray(name, [[0, shape, 3, 16], [3, shape, 1, 16, 12], [1, "voxelValue", 1, 4, 0, 1],
                              [2, "cell", 3, 16, 4, 1, true]]);
    gl.bindVertexArray(this.arrays.faces); // which remembers the triangles
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, triangles, gl.STATIC_DRAW);
    gl.bindVertexArray(null);
    this.triangles = triangles.length;
    this.counts = { points: 0, voxels: 0, samples: 0, box: 0, grid: 0 };
    this.texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  }

  program(vertex) {
    const gl = this.gl;
    const program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(`WebGL: ${gl.getProgramInfoLog(program)}`);
    const at = {};
    for (const name of ["view", "size", "low", "eye", "range", "plain", "picked"])
      at[name] = gl.getUniformLocation(program, name);
    return { program, at };
  }

  // Rows: location, buffer, components, stride, offset, divisor, whether the shader takes integers.
  vertexArray(name, rows) {
    const gl = this.gl;
    if (this.arrays[name]) gl.deleteVertexArray(this.arrays[name]);
    this.arrays[name] = gl.createVertexArray();
    gl.bindVertexArray(this.arrays[name]);
    for (const [location, buffer, components, stride, offset = 0, divisor = 0, whole = false] of rows) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
      gl.enableVertexAttribArray(location);
      if (whole) gl.vertexAttribIPointer(location, components, gl.INT, stride, offset);
      else gl.vertexAttribPointer(location, components, gl.FLOAT, false, stride, offset);
      gl.vertexAttribDivisor(location, divisor);
    }
    gl.bindVertexArray(null);
  }

  fill(buffer, data) {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
  }

  setPoints(points, columns) {
    this.fill("place", points);
    this.vertexArray("points", [[0, "place", 3, 4 * columns], [1, "value", 1, 4]]);
    this.counts.points = points.length / columns;
  }

  // `cells` are the rows of voxel_coords: batch, z, y, x.
  setVoxels(cells, low, size) {
    this.fill("cell", cells);
    Object.assign(this, { low, size, picked: -1 });
    this.counts.voxels = cells.length / 4;
  }

  setSamples(points, columns) {
    this.fill("sample", points);
    this.vertexArray("samples", [[0, "sample", 3, 4 * columns]]);
    this.counts.samples = points.length / columns;
  }

  setBox(low, high) {
    for (const [name, lines] of [["box", boxLines(low, high)], ["grid", gridLines(low, high)]]) {
      this.fill(name, new Float32Array(lines));
      this.counts[name] = lines.length / 3;
    }
  }

  setValues({ ofPoints, ofVoxels, range }, ramp) {
    const gl = this.gl;
    this.fill("value", ofPoints);
    this.fill("voxelValue", ofVoxels);
    this.range = range;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
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

  drawLines(name, matrix, plain, mode = this.gl.LINES) {
    const gl = this.gl;
    const at = this.use("lines", matrix);
    gl.uniform3fv(at.plain, plain);
    gl.uniform1f(at.size, this.pointSize + 2);
    gl.bindVertexArray(this.arrays[name]);
    gl.drawArrays(mode, 0, this.counts[name]);
  }

  drawPoints(matrix) {
    const gl = this.gl;
    gl.uniform1f(this.use("points", matrix).size, this.pointSize);
    gl.bindVertexArray(this.arrays.points);
    gl.drawArrays(gl.POINTS, 0, this.counts.points);
  }

  drawVoxels(name, matrix, eye) {
    const gl = this.gl;
    const at = this.use("boxes", matrix);
    gl.uniform3fv(at.low, this.low);
    gl.uniform3fv(at.size, this.size);
    gl.uniform3fv(at.eye, eye);
    gl.uniform1i(at.picked, this.picked);
    gl.bindVertexArray(this.arrays[name]);
    if (name === "edges") gl.drawArraysInstanced(gl.LINES, 0, edges.length, this.counts.voxels);
    else gl.drawElementsInstanced(gl.TRIANGLES, this.triangles, gl.UNSIGNED_BYTE, 0, this.counts.voxels);
  }

  draw(camera) {
    const gl = this.gl;
    const { canvas, show, counts } = this;
    const scale = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(...this.background, 1);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    const matrix = camera.matrix(width / height);
    const faint = this.background.map((value) => value * 0.7 + 0.5 * 0.3);
    if (show.box) this.drawLines("grid", matrix, faint);
    if (show.box) this.drawLines("box", matrix, RANGE);
    if (show.points && counts.points) this.drawPoints(matrix);
    for (const name of ["faces", "edges"])
      if (show[name] && counts.voxels) this.drawVoxels(name, matrix, camera.eye());
    gl.disable(gl.DEPTH_TEST); // samples are means: they lie inside of their voxels
    if (show.samples && counts.samples) this.drawLines("samples", matrix, SAMPLE, gl.POINTS);
    gl.bindVertexArray(null);
  }
}
