// A program that draws views of one model, with the textures that it reads.
import type { Grid, SceneHeader } from "./model";
import { fullScreen, viewOf } from "./shader";

const blockRow = 1024; // texels of a row of the textures of blocks

export function link(gl: WebGL2RenderingContext, fragment: string): WebGLProgram {
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

export function makeTexture(gl: WebGL2RenderingContext, unit: number, target: number, filter: number): WebGLTexture {
  const texture = gl.createTexture();
  gl.activeTexture(gl.TEXTURE0 + unit);
  gl.bindTexture(target, texture);
  gl.texParameteri(target, gl.TEXTURE_MIN_FILTER, filter);
  gl.texParameteri(target, gl.TEXTURE_MAG_FILTER, filter);
  for (const wrap of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R]) gl.texParameteri(target, wrap, gl.CLAMP_TO_EDGE);
  return texture;
}

export class ViewPass {
  readonly program: WebGLProgram;
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();

  // Textures keep their units: each pass has its own. Throws an Error for people where the device cannot show the model.
  constructor(
    protected readonly gl: WebGL2RenderingContext,
    field: string,
    header: SceneHeader,
    grid: Grid,
    gridUnit: number, // and the next
  ) {
    this.program = link(gl, viewOf(field));
    gl.useProgram(this.program);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.setScene(header);
    this.uploadOfBlocks("blocks", gridUnit, gl.RG32UI, gl.RG_INTEGER, gl.UNSIGNED_INT, grid.blocks, 2);
    this.uploadOfBlocks("emptyDistances", gridUnit + 1, gl.R8UI, gl.RED_INTEGER, gl.UNSIGNED_BYTE, grid.distances, 1);
  }

  uniform(name: string): WebGLUniformLocation | null {
    if (!this.uniforms.has(name)) this.uniforms.set(name, this.gl.getUniformLocation(this.program, name));
    return this.uniforms.get(name)!;
  }

  protected checkSize(side: number, limit: number) {
    if (side > this.gl.getParameter(limit)) throw new Error(`The model is too large for this device: a texture of ${side} rows.`);
  }

  // Numbers of each block of the grid, as a texture.
  protected uploadOfBlocks(name: string, unit: number, format: number, layout: number, type: number, values: Uint8Array | Uint32Array, perBlock: number) {
    const { gl } = this;
    const rows = Math.ceil(values.length / perBlock / blockRow);
    this.checkSize(rows, gl.MAX_TEXTURE_SIZE);
    const whole = new (values.constructor as Uint8ArrayConstructor)(perBlock * blockRow * rows);
    whole.set(values);
    makeTexture(gl, unit, gl.TEXTURE_2D, gl.NEAREST);
    gl.texStorage2D(gl.TEXTURE_2D, 1, format, blockRow, rows);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, blockRow, rows, layout, type, whole);
    gl.uniform1i(this.uniform(name), unit);
  }

  private setScene(header: SceneHeader) {
    const { gl } = this;
    const { box, march } = header;
    gl.uniform3fv(this.uniform("boxCenter"), box.center);
    gl.uniform1f(this.uniform("halfSide"), box.halfSide);
    gl.uniform1i(this.uniform("boxes"), box.count);
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
}
