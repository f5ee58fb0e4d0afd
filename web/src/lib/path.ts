// A path of the camera through keyframes that were taken from a viewer, as render and export jobs take it.
export interface ViewerPath {
  keyframes: { transformMatrix: number[]; fovDegrees: number }[];
  frames: number;
  loop: boolean;
}
