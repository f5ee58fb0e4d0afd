// Keys that are held down fly the camera on.
const flights: Record<string, [number, number, number]> = { w: [0, 0, 1], s: [0, 0, -1], a: [-1, 0, 0], d: [1, 0, 0], q: [0, -1, 0], e: [0, 1, 0] };

export class Flight {
  private readonly held = new Set<string>();
  private flewAt = 0;

  // move: called for every frame with the seconds that were flown to the right, up and forward.
  constructor(private readonly move: (right: number, up: number, forward: number) => void) {}

  // False for keys that do not fly.
  hold(key: string): boolean {
    if (!flights[key]) return false;
    if (this.held.has(key)) return true;
    this.held.add(key);
    if (this.held.size > 1) return true;
    this.flewAt = performance.now() - 30; // a tap moves, too
    this.flyOn();
    return true;
  }

  release(key: string) {
    this.held.delete(key);
  }

  releaseAll() {
    this.held.clear();
  }

  private flyOn() {
    if (this.held.size === 0) return;
    const now = performance.now();
    const seconds = Math.min(0.2, (now - this.flewAt) / 1_000);
    this.flewAt = now;
    const [right, up, forward] = [0, 1, 2].map((axis) => seconds * [...this.held].reduce((sum, key) => sum + flights[key]![axis]!, 0)) as [number, number, number];
    this.move(right, up, forward);
    requestAnimationFrame(() => this.flyOn());
  }
}
