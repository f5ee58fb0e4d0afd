// Draws views of the model by WebGL 2, in parts: a coarse picture of the whole, or squares of the full one.
import { floatOfHalf, layers, type Model, type Vec3 } from "./model";
import { fullScreen, present, view } from "./shader";

// Where a view is taken from, training frame.
export interface Camera {
  axes: number[]; // right, up, backward: 9 numbers
  position: Vec3;
  slopes: [number, number]; // half the picture at distance 1: across, up
}

export type Channel = 0 | 1; // color, depth

interface Target {
  texture: WebGLTexture;
  framebuffer: WebGLFramebuffer;
  width: number;
  height: number;
}

const blockRow = 1024; // texels of a row of the textures of blocks
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export class Renderer {
  private readonly gl: WebGL2RenderingContext;
  private readonly viewProgram: WebGLProgram;
  private readonly presentProgram: WebGLProgram;
  private readonly coarse: Target;
  private readonly fine: Target;
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();

  // Throws an Error for people where the device cannot show the model.
  constructor(
    private readonly canvas: HTMLCanvasElement,
    model: Model,
  ) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("This browser shows no WebGL 2, which the viewer draws with.");
    this.gl = gl;
    this.viewProgram = this.link(view);
    this.presentProgram = this.link(present);
    this.uploadTable(model);
    this.uploadBlocks(model);
    this.uploadWeights(model);
    this.setScene(model);
    this.coarse = this.makeTarget(gl.LINEAR);
    this.fine = this.makeTarget(gl.NEAREST);
    gl.useProgram(this.presentProgram);
    gl.uniform1i(gl.getUniformLocation(this.presentProgram, "coarse"), 3);
    gl.uniform1i(gl.getUniformLocation(this.presentProgram, "fine"), 4);
  }

  get isLost(): boolean {
    return this.gl.isContextLost();
  }

  // The picture of the whole view at this size, to be stretched over the canvas. Returns when it is drawn: milliseconds.
  async drawCoarse(camera: Camera, channel: Channel, width: number, height: number): Promise<number> {
    const { gl } = this;
    this.resize(this.coarse, width, height);
    this.resize(this.fine, this.canvas.width, this.canvas.height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.fine.framebuffer);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    return this.draw(this.coarse, camera, channel, 0, 0, width, height);
  }

  // A part of the full view, y upwards, over the coarse one.
  async drawFine(camera: Camera, channel: Channel, x: number, y: number, width: number, height: number): Promise<number> {
    return this.draw(this.fine, camera, channel, x, y, width, height);
  }

  present() {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.useProgram(this.presentProgram);
    gl.uniform2f(gl.getUniformLocation(this.presentProgram, "canvasSize"), this.canvas.width, this.canvas.height);
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, this.coarse.texture);
    gl.activeTexture(gl.TEXTURE4);
    gl.bindTexture(gl.TEXTURE_2D, this.fine.texture);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.bindTexture(gl.TEXTURE_2D, null); // it may be drawn to next
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, null);
  }

  private async draw(target: Target, camera: Camera, channel: Channel, x: number, y: number, width: number, height: number): Promise<number> {
    const { gl } = this;
    const begun = performance.now();
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.framebuffer);
    gl.viewport(0, 0, target.width, target.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(x, y, width, height);
    gl.useProgram(this.viewProgram);
    gl.uniform2f(this.uniform("viewSize"), target.width, target.height);
    gl.uniformMatrix3fv(this.uniform("cameraAxes"), false, camera.axes);
    gl.uniform3fv(this.uniform("cameraPosition"), camera.position);
    gl.uniform2fv(this.uniform("cameraSlopes"), camera.slopes);
    gl.uniform1i(this.uniform("channel"), channel);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.disable(gl.SCISSOR_TEST);
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    while (fence && !this.isLost) {
      const state = gl.clientWaitSync(fence, 0, 0);
      if (state === gl.ALREADY_SIGNALED || state === gl.CONDITION_SATISFIED || state === gl.WAIT_FAILED) break;
      await sleep(0);
    }
    gl.deleteSync(fence);
    return performance.now() - begun;
  }

  private uniform(name: string): WebGLUniformLocation | null {
    if (!this.uniforms.has(name)) this.uniforms.set(name, this.gl.getUniformLocation(this.viewProgram, name));
    return this.uniforms.get(name)!;
  }

  private link(fragment: string): WebGLProgram {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [type, source] of [
      [gl.VERTEX_SHADER, fullScreen],
      [gl.FRAGMENT_SHADER, fragment],
    ] as const) {
      const shader = gl.createShader(type)!;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      const logs = (gl.getAttachedShaders(program) ?? []).map((shader) => gl.getShaderInfoLog(shader));
      throw new Error(`This device cannot run the viewer: ${[gl.getProgramInfoLog(program), ...logs].filter(Boolean).join(" ")}`);
    }
    return program;
  }

  private makeTexture(unit: number, target: number, filter: number): WebGLTexture {
    const { gl } = this;
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(target, texture);
    gl.texParameteri(target, gl.TEXTURE_MIN_FILTER, filter);
    gl.texParameteri(target, gl.TEXTURE_MAG_FILTER, filter);
    gl.texParameteri(target, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.texParameteri(target, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
    return texture;
  }

  private checkSize(side: number, limit: number) {
    if (side > this.gl.getParameter(limit)) throw new Error(`The model is too large for this device: a texture of ${side} rows.`);
  }

  // An entry is a texel, a level a layer. The rows that a coarse level does not use stay empty.
  private uploadTable({ header, table }: Model) {
    const { gl } = this;
    const { log2Entries } = header.table;
    const widthBits = Math.ceil(log2Entries / 2);
    const width = 1 << widthBits;
    const height = 1 << (log2Entries - widthBits);
    this.checkSize(width, gl.MAX_TEXTURE_SIZE);
    this.makeTexture(0, gl.TEXTURE_2D_ARRAY, gl.NEAREST);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl.RGBA16F, width, height, table.length);
    table.forEach((level, i) => {
      const rows = Math.ceil(level.length / 4 / width);
      const whole = new Uint16Array(4 * width * rows);
      whole.set(level);
      gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, i, width, rows, 1, gl.RGBA, gl.HALF_FLOAT, whole);
    });
    gl.useProgram(this.viewProgram);
    gl.uniform1i(this.uniform("table"), 0);
    gl.uniform1i(this.uniform("tableWidthBits"), widthBits);
    gl.uniform1ui(this.uniform("tableMask"), 2 ** log2Entries - 1);
    gl.uniform1iv(this.uniform("resolution"), header.table.resolutions);
    const isDense = header.table.resolutions.map((cells) => ((cells + 1) ** 3 <= 2 ** log2Entries ? 1 : 0));
    gl.uniform1iv(this.uniform("isDense"), isDense);
  }

  private uploadBlocks({ blocks, distances }: Model) {
    const { gl } = this;
    const rows = Math.ceil(distances.length / blockRow);
    this.checkSize(rows, gl.MAX_TEXTURE_SIZE);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.makeTexture(1, gl.TEXTURE_2D, gl.NEAREST);
    const words = new Uint32Array(2 * blockRow * rows);
    words.set(blocks);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RG32UI, blockRow, rows);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, blockRow, rows, gl.RG_INTEGER, gl.UNSIGNED_INT, words);
    this.makeTexture(2, gl.TEXTURE_2D, gl.NEAREST);
    const bytes = new Uint8Array(blockRow * rows);
    bytes.set(distances);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.R8UI, blockRow, rows);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, blockRow, rows, gl.RED_INTEGER, gl.UNSIGNED_BYTE, bytes);
    gl.useProgram(this.viewProgram);
    gl.uniform1i(this.uniform("blocks"), 1);
    gl.uniform1i(this.uniform("emptyDistances"), 2);
  }

  private uploadWeights({ weights }: Model) {
    const { gl } = this;
    const offsets: number[] = [];
    layers.reduce((offset, [inputs, outputs]) => (offsets.push(offset), offset + inputs * outputs), 0);
    // Blocks of 4 x 4 weights of a layer, outputs j in groups of four first, or inputs i.
    const blocksOf = (layer: number, byInput: boolean, groups = layers[layer]![1] / 4): number[] => {
      const [inputs, outputs] = layers[layer]!;
      const values: number[] = [];
      const add = (i: number, j: number) => {
        for (let column = 0; column < 4; ++column) {
          for (let row = 0; row < 4; ++row) values.push(floatOfHalf(weights[offsets[layer]! + (4 * i + column) * outputs + 4 * j + row]!));
        }
      };
      if (byInput) for (let i = 0; i < inputs / 4; ++i) for (let j = 0; j < groups; ++j) add(i, j);
      else for (let j = 0; j < groups; ++j) for (let i = 0; i < inputs / 4; ++i) add(i, j);
      return values;
    };
    const uniformBlocks: [string, number[]][] = [
      ["DensityWeights", [...blocksOf(0, false), ...blocksOf(1, true)]],
      ["ColorWeights", [...blocksOf(2, false), ...blocksOf(4, true, 1)]],
      ["HiddenWeights", blocksOf(3, false)],
    ];
    uniformBlocks.forEach(([name, values], i) => {
      gl.uniformBlockBinding(this.viewProgram, gl.getUniformBlockIndex(this.viewProgram, name), i);
      gl.bindBufferBase(gl.UNIFORM_BUFFER, i, gl.createBuffer());
      gl.bufferData(gl.UNIFORM_BUFFER, new Float32Array(values), gl.STATIC_DRAW);
    });
  }

  private setScene({ header }: Model) {
    const { gl } = this;
    gl.useProgram(this.viewProgram);
    const { box, march } = header;
    gl.uniform1f(this.uniform("densityShift"), header.densityShift);
    gl.uniform3fv(this.uniform("boxCenter"), box.center);
    gl.uniform1f(this.uniform("halfSide"), box.halfSide);
    gl.uniform1i(this.uniform("boxes"), box.count);
    gl.uniform1i(this.uniform("contraction"), header.contraction);
    gl.uniform1i(this.uniform("gridResolution"), box.resolution);
    gl.uniform1f(this.uniform("stepLength"), march.step);
    gl.uniform1f(this.uniform("cone"), march.cone);
    gl.uniform1f(this.uniform("rayNear"), march.near);
    gl.uniform1f(this.uniform("rayFar"), march.far);
    gl.uniform1f(this.uniform("minTransmittance"), march.minTransmittance);
    gl.uniform3fv(this.uniform("background"), header.background);
    gl.uniform1i(this.uniform("learnsBackground"), header.learnsBackground ? 1 : 0);
    gl.uniform1i(this.uniform("isCropped"), header.crop ? 1 : 0);
    if (header.crop) {
      gl.uniform3fv(this.uniform("cropCenter"), header.crop.center);
      gl.uniform3fv(this.uniform("cropAxes"), header.crop.axes.flat());
    }
    gl.uniform1f(this.uniform("depthScale"), header.distance);
  }

  private makeTarget(filter: number): Target {
    const { gl } = this;
    const texture = this.makeTexture(3, gl.TEXTURE_2D, filter);
    const framebuffer = gl.createFramebuffer();
    gl.bindTexture(gl.TEXTURE_2D, null);
    return { texture, framebuffer, width: 0, height: 0 };
  }

  private resize(target: Target, width: number, height: number) {
    const { gl } = this;
    if (target.width === width && target.height === height) return;
    target.width = width;
    target.height = height;
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, target.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, null);
    gl.bindTexture(gl.TEXTURE_2D, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.framebuffer);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, target.texture, 0);
  }
}
