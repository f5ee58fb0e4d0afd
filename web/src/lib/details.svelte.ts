// Whether figures for those who know the method are shown: on all pages alike, kept by the browser.
const key = "nerfd-details";

class Details {
  private shown = $state(localStorage.getItem(key) !== null);
  get isOpen(): boolean {
    return this.shown;
  }
  set isOpen(next: boolean) {
    this.shown = next;
    if (next) localStorage.setItem(key, "open");
    else localStorage.removeItem(key);
  }
}
export const details = new Details();
