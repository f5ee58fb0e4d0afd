// What the pointers that are down do: one drags; two drag by their middle and pinch by their distance.
export class Gesture {
  private readonly at = new Map<number, [number, number]>();

  get nPointers(): number {
    return this.at.size;
  }

  down(event: PointerEvent) {
    this.at.set(event.pointerId, [event.clientX, event.clientY]);
  }

  up(event: PointerEvent) {
    this.at.delete(event.pointerId);
  }

  // Pixels that the middle moved by, and by what factor the distance grew; null for a pointer that is not down.
  move(event: PointerEvent): { right: number; down: number; scale: number } | null {
    if (!this.at.has(event.pointerId)) return null;
    const before = this.shape();
    this.down(event);
    const after = this.shape();
    return { right: after.x - before.x, down: after.y - before.y, scale: before.distance > 0 && after.distance > 0 ? after.distance / before.distance : 1 };
  }

  private shape(): { x: number; y: number; distance: number } {
    const [[x, y] = [0, 0], second] = [...this.at.values()];
    if (!second) return { x, y, distance: 0 };
    return { x: (x + second[0]) / 2, y: (y + second[1]) / 2, distance: Math.hypot(x - second[0], y - second[1]) };
  }
}
