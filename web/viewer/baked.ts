// A baked model: its cells of nodes beside each other in textures of three dimensions.
import { bakedField } from "./baked_shader";
import type { Cells } from "./cells";
import type { BakedModel, SceneHeader } from "./model";
import { makeTexture, ViewPass } from "./pass";

// Beside those of the exact model and of the canvas.
const [baseUnit, slopeUnit, cellUnit, horizonUnit, gridUnit] = [5, 6, 9, 10, 11];

export class BakedPass extends ViewPass {
  private readonly side: number; // nodes of a cell
  private readonly across: number; // cells beside each other
  private readonly deep: number; // layers of cells

  constructor(gl: WebGL2RenderingContext, header: SceneHeader, model: BakedModel) {
    super(gl, bakedField, header, model, gridUnit);
    const { nodesPerCell, horizon, density, base, slope } = header.baked!;
    const { cells } = model;
    this.side = nodesPerCell + 1;
    this.across = Math.ceil(Math.cbrt(cells.count));
    this.deep = Math.ceil(cells.count / this.across ** 2);
    const size = this.across * this.side;
    this.checkSize(size, gl.MAX_3D_TEXTURE_SIZE);
    this.uploadNodes("base", baseUnit, cells, model.base, 4);
    model.slopes.forEach((slopes, axis) => this.uploadNodes(`slopes[${axis}]`, slopeUnit + axis, cells, slopes, 3));
    this.uploadOfBlocks("firstCells", cellUnit, gl.R32UI, gl.RED_INTEGER, gl.UNSIGNED_INT, cells.firstCells, 1);
    if (horizon > 0) this.uploadHorizon(model.horizon, horizon);
    gl.uniform1i(this.uniform("cellsAcross"), this.across);
    gl.uniform3f(this.uniform("atlasSize"), size, size, this.deep * this.side);
    gl.uniform1f(this.uniform("cellSide"), this.side);
    gl.uniform1f(this.uniform("nodeDistance"), (2 * header.box.halfSide) / header.box.resolution / nodesPerCell);
    gl.uniform2fv(this.uniform("densityRange"), density);
    gl.uniform2fv(this.uniform("baseRange"), base);
    gl.uniform2fv(this.uniform("slopeRange"), slope);
  }

  // A layer of cells at a time.
  private uploadNodes(name: string, unit: number, { nodes, count }: Cells, values: Uint8Array, channels: 3 | 4) {
    const { gl, side, across, deep } = this;
    const [format, layout] = channels === 4 ? ([gl.RGBA8, gl.RGBA] as const) : ([gl.RGB8, gl.RGB] as const);
    const size = across * side;
    makeTexture(gl, unit, gl.TEXTURE_3D, gl.LINEAR);
    gl.texStorage3D(gl.TEXTURE_3D, 1, format, size, size, deep * side);
    const layer = new Uint8Array(channels * size * size * side);
    for (let z = 0; z < deep; ++z) {
      for (let inLayer = 0; inLayer < across ** 2 && z * across ** 2 + inLayer < count; ++inLayer) {
        const from = (z * across ** 2 + inLayer) * side ** 3;
        const to = (Math.floor(inLayer / across) * size + (inLayer % across)) * side;
        for (let i = 0; i < side ** 3; ++i) {
          const texel = to + (Math.floor(i / side ** 2) * size + (Math.floor(i / side) % side)) * size + (i % side);
          for (let channel = 0; channel < channels; ++channel) layer[channels * texel + channel] = values[channels * nodes[from + i]! + channel]!;
        }
      }
      gl.texSubImage3D(gl.TEXTURE_3D, 0, 0, 0, z * side, size, size, side, layout, gl.UNSIGNED_BYTE, layer);
    }
    gl.uniform1i(this.uniform(name), unit);
  }

  private uploadHorizon(colors: Uint8Array, rows: number) {
    const { gl } = this;
    makeTexture(gl, horizonUnit, gl.TEXTURE_2D, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.REPEAT);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGB8, 2 * rows, rows);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 2 * rows, rows, gl.RGB, gl.UNSIGNED_BYTE, colors);
    gl.uniform1i(this.uniform("horizon"), horizonUnit);
  }
}
