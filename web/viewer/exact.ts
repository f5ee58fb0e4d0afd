// The model itself: its hash table as a texture, its networks as uniforms.
import { exactField } from "./exact_shader";
import { floatOfHalf, layers, type ExactModel, type SceneHeader } from "./model";
import { makeTexture, ViewPass } from "./pass";

const tableUnit = 0;
const gridUnit = 1; // and 2

export class ExactPass extends ViewPass {
  constructor(gl: WebGL2RenderingContext, header: SceneHeader, model: ExactModel) {
    super(gl, exactField, header, model, gridUnit);
    this.uploadTable(header, model.table);
    this.uploadWeights(model.weights);
    gl.uniform1f(this.uniform("densityShift"), header.densityShift);
    gl.uniform1i(this.uniform("contraction"), header.contraction);
    const { frustum } = header;
    if (!frustum) return;
    const [x, y, z] = frustum.apex;
    const [centerX, centerY, centerZ] = header.box.center;
    gl.uniform3f(this.uniform("frustumApex"), x - centerX, y - centerY, z - centerZ);
    gl.uniformMatrix3fv(this.uniform("frustumAxes"), false, frustum.axes.flat());
    gl.uniform2f(this.uniform("frustumSides"), frustum.near, frustum.slope);
  }

  // An entry is a texel, a level a layer. The rows that a coarse level does not use stay empty.
  private uploadTable(header: SceneHeader, table: Uint16Array[]) {
    const { gl } = this;
    const { log2Entries } = header.table;
    const widthBits = Math.ceil(log2Entries / 2);
    const width = 1 << widthBits;
    const height = 1 << (log2Entries - widthBits);
    this.checkSize(width, gl.MAX_TEXTURE_SIZE);
    makeTexture(gl, tableUnit, gl.TEXTURE_2D_ARRAY, gl.NEAREST);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl.RGBA16F, width, height, table.length);
    table.forEach((level, i) => {
      const rows = Math.ceil(level.length / 4 / width);
      const whole = new Uint16Array(4 * width * rows);
      whole.set(level);
      gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, i, width, rows, 1, gl.RGBA, gl.HALF_FLOAT, whole);
    });
    gl.uniform1i(this.uniform("table"), tableUnit);
    gl.uniform1i(this.uniform("tableWidthBits"), widthBits);
    gl.uniform1ui(this.uniform("tableMask"), 2 ** log2Entries - 1);
    gl.uniform1iv(this.uniform("resolution"), header.table.resolutions);
    const isDense = header.table.resolutions.map((cells) => ((cells + 1) ** 3 <= 2 ** log2Entries ? 1 : 0));
    gl.uniform1iv(this.uniform("isDense"), isDense);
  }

  private uploadWeights(weights: Uint16Array) {
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
      gl.uniformBlockBinding(this.program, gl.getUniformBlockIndex(this.program, name), i);
      gl.bindBufferBase(gl.UNIFORM_BUFFER, i, gl.createBuffer());
      gl.bufferData(gl.UNIFORM_BUFFER, new Float32Array(values), gl.STATIC_DRAW);
    });
  }
}
