// The box of a crop while it is drawn over a view: whether the view is cut to it, and the handle that a pointer holds.
import { dragged, drawBox, handleAt, messageOf, type Box, type Handle } from "./crop";
import type { OrbitPose, SceneView } from "./orbit";

const mouseReach = 14; // of a handle, pixels
const fingerReach = 26;

export class CropDraft {
  box = $state.raw<Box | null>(null);
  isCut = $state(false); // the picture shows what is in it alone
  private held: { handle: Handle; box: Box; from: [number, number] } | null = null;

  // What is asked of pictures: while the box is drawn, the whole or what is in it; else what is kept.
  style() {
    if (!this.box) return undefined;
    return this.isCut ? { crop: messageOf(this.box) } : { whole: true };
  }

  // Takes the handle that is near a point of the view, if there is one.
  press(view: SceneView | null, pose: OrbitPose, width: number, at: [number, number], isFinger: boolean) {
    const handle = this.box && view ? handleAt(view, pose, width, this.box, at, isFinger ? fingerReach : mouseReach) : null;
    this.held = handle && this.box ? { handle, box: this.box, from: at } : null;
  }

  // The box that a move to this point of the view makes; null while no handle is held.
  boxAt(view: SceneView | null, pose: OrbitPose, width: number, to: [number, number]): Box | null {
    return this.held && view ? dragged(view, pose, width, this.held.box, this.held.handle, this.held.from, to) : null;
  }

  // Whether a handle was held.
  release(): boolean {
    const wasHeld = this.held !== null;
    this.held = null;
    return wasHeld;
  }

  draw(context: CanvasRenderingContext2D, view: SceneView, pose: OrbitPose, width: number) {
    if (this.box) drawBox(context, view, pose, width, this.box, this.held?.handle.kind ?? null);
  }
}
