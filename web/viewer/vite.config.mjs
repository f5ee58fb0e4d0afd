import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const read = (name) => readFileSync(fileURLToPath(new URL(name, import.meta.url)), "utf8");

// One file, dist/viewer.html, that is compiled into nerf-engine: it puts a scene and a model into it.
export default defineConfig({
  build: {
    outDir: fileURLToPath(new URL("../dist", import.meta.url)),
    emptyOutDir: false,
    copyPublicDir: false,
    target: "es2022",
    lib: { entry: fileURLToPath(new URL("main.ts", import.meta.url)), formats: ["iife"], name: "viewer" },
  },
  plugins: [
    {
      name: "one-file",
      generateBundle(_, bundle) {
        const parts = { VIEWER_CSS: read("viewer.css"), VIEWER_JS: "" };
        for (const [name, file] of Object.entries(bundle)) {
          if (file.type === "chunk") parts.VIEWER_JS = file.code;
          delete bundle[name];
        }
        const source = read("viewer.html").replace(/%(VIEWER_\w+)%/g, (_, key) => parts[key]);
        this.emitFile({ type: "asset", fileName: "viewer.html", source });
      },
    },
  ],
});
