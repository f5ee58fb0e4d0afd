// Draws views of the model by WebGL 2, in parts: a coarse picture of the whole, or squares of the full one.
import { BakedPass } from "./baked";
import { ExactPass } from "./exact";
import { bakedHeader, type Kind, type Model, type Vec3 } from "./model";
import { link, makeTexture, type ViewPass } from "./pass";
import { present } from "./shader";

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

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export class Renderer {
  private readonly gl: WebGL2RenderingContext;
  private readonly presentProgram: WebGLProgram;
  private readonly coarse: Target;
  private readonly fine: Target;
  private readonly passes: Partial<Record<Kind, ViewPass>> = {};
  private pass!: ViewPass;

  // Throws an Error for people where the device cannot show the model.
  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly model: Model,
  ) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("This browser shows no WebGL 2, which the viewer draws with.");
    this.gl = gl;
    this.presentProgram = link(gl, present);
    this.coarse = this.makeTarget(gl.LINEAR);
    this.fine = this.makeTarget(gl.NEAREST);
    gl.useProgram(this.presentProgram);
    gl.uniform1i(gl.getUniformLocation(this.presentProgram, "coarse"), 3);
    gl.uniform1i(gl.getUniformLocation(this.presentProgram, "fine"), 4);
  }

  get isLost(): boolean {
    return this.gl.isContextLost();
  }

  // Draws this form of the model from now on. Throws an Error for people where the device cannot.
  use(kind: Kind) {
    const { gl, model } = this;
    this.pass = this.passes[kind] ??= kind === "exact" ? new ExactPass(gl, model.header, model.exact!) : new BakedPass(gl, bakedHeader(model.header), model.baked!);
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
    const { gl, pass } = this;
    const begun = performance.now();
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.framebuffer);
    gl.viewport(0, 0, target.width, target.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(x, y, width, height);
    gl.useProgram(pass.program);
    gl.uniform2f(pass.uniform("viewSize"), target.width, target.height);
    gl.uniformMatrix3fv(pass.uniform("cameraAxes"), false, camera.axes);
    gl.uniform3fv(pass.uniform("cameraPosition"), camera.position);
    gl.uniform2fv(pass.uniform("cameraSlopes"), camera.slopes);
    gl.uniform1i(pass.uniform("channel"), channel);
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

  private makeTarget(filter: number): Target {
    const { gl } = this;
    const texture = makeTexture(gl, 3, gl.TEXTURE_2D, filter);
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
