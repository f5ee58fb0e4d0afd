import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// dist/ is committed and compiled into nerfd, so its files keep their names and their bytes depend on the sources alone.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "dist",
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: "app.js",
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "app.css" : "[name][extname]"),
      },
    },
  },
  // `npm run dev` beside a nerfd: calls and blobs go on to it.
  server: {
    proxy: Object.fromEntries(
      ["/nerf.v1.", "/google.bytestream.", "/blobs", "/uploads"].map((path) => [path, process.env.NERFD_WEB ?? "http://127.0.0.1:8080"]),
    ),
  },
});
