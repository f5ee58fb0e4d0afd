// Which form of the model is drawn: the exact one, unless the file lacks it, the device cannot draw it or is slow at it.
import type { Kind, Model } from "./model";
import type { Renderer } from "./renderer";

const mostMs = 100; // for a whole picture of the exact model, where there is a baked one
const leastSlow = 2; // pictures in a row: one alone may have waited for something else

export class Choice {
  private kind: Kind;
  private isOpen: boolean; // until the device is slow or a person has chosen
  private nSlow = 0;
  private lacksOther = false; // the device cannot draw it

  // Chooses one. onChosen: it is drawn from now on, and whether there is a choice. Throws an Error for people where the device draws none.
  constructor(
    private readonly model: Model,
    private readonly renderer: Renderer,
    private readonly onChosen: (kind: Kind, hasBoth: boolean) => void,
  ) {
    this.isOpen = this.hasBoth;
    this.kind = model.exact ? "exact" : "baked";
    try {
      renderer.use(this.kind);
    } catch (error) {
      if (!this.hasBoth) throw error;
      this.lacksOther = true;
      this.kind = "baked";
      renderer.use(this.kind);
      onChosen(this.kind, false);
    }
  }

  get hasBoth(): boolean {
    return !this.lacksOther && this.model.exact !== undefined && this.model.baked !== undefined;
  }

  // Behind the milliseconds.
  get says(): string {
    return this.model.baked ? `, ${this.kind}` : "";
  }

  // ms: what a whole picture takes.
  weigh(ms: number) {
    if (!this.isOpen) return;
    this.nSlow = ms > mostMs ? this.nSlow + 1 : 0;
    if (this.nSlow >= leastSlow) this.turn();
    else if (this.nSlow > 0) this.onChosen(this.kind, true); // draws again
  }

  // To the other form, which is kept. Where the device cannot draw it, nothing changes.
  turn() {
    if (!this.hasBoth) return;
    this.isOpen = false;
    const next = this.kind === "exact" ? "baked" : "exact";
    try {
      this.renderer.use(next);
      this.kind = next;
    } catch {
      this.lacksOther = true;
    }
    this.onChosen(this.kind, this.hasBoth);
  }
}
