// Which nodes the cells of a baked model have: engine/export/files/baked_model.h.

// Calls visit for each node of the cell of this bit of a block, x fastest: its number in the block.
function forNodes(bit: number, perCell: number, visit: (inBlock: number) => void) {
  const side = 4 * perCell + 1;
  const first = (((bit >> 4) * side + ((bit >> 2) & 3)) * side + (bit & 3)) * perCell;
  for (let z = 0; z <= perCell; ++z) for (let y = 0; y <= perCell; ++y) for (let x = 0; x <= perCell; ++x) visit(first + (z * side + y) * side + x);
}

export interface Cells {
  nodes: Uint32Array; // of each cell (perCell + 1)^3 numbers in the file's order
  firstCells: Uint32Array; // of each block
  count: number;
}

// blocks: two words of bits for each. Null where they do not have that many nodes.
export function cellsOf(blocks: Uint32Array, perCell: number, nNodes: number): Cells | null {
  const firstCells = new Uint32Array(blocks.length / 2);
  const nodes: number[] = [];
  let count = 0;
  let first = 0; // node of the block
  const numbers = new Int32Array((4 * perCell + 1) ** 3);
  for (let block = 0; block < firstCells.length; ++block) {
    firstCells[block] = count;
    const bits: number[] = [];
    for (let bit = 0; bit < 64; ++bit) if ((blocks[2 * block + (bit >> 5)]! >>> (bit & 31)) & 1) bits.push(bit);
    if (bits.length === 0) continue;
    numbers.fill(-1);
    for (const bit of bits) forNodes(bit, perCell, (inBlock) => (numbers[inBlock] = 0));
    for (let i = 0; i < numbers.length; ++i) if (numbers[i] === 0) numbers[i] = first++;
    for (const bit of bits) forNodes(bit, perCell, (inBlock) => nodes.push(numbers[inBlock]!));
    count += bits.length;
  }
  if (first !== nNodes) return null;
  return { nodes: Uint32Array.from(nodes), firstCells, count };
}
