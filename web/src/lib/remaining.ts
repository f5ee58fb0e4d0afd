// The time left of what says how much of it is done, by how fast that grew while the page looked.
const leastSeconds = 1;

export class Remaining {
  private first: { share: number; ms: number } | null = null;

  // share: done now, 0 to 1; ms: of a clock. Seconds left; 0 where that is not known.
  after(share: number, ms: number): number {
    if (this.first === null || share < this.first.share) this.first = { share, ms };
    const seconds = (ms - this.first.ms) / 1000;
    const grown = share - this.first.share;
    return grown > 0 && seconds >= leastSeconds ? ((1 - share) / grown) * seconds : 0;
  }
}
