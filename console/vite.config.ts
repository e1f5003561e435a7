import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const api = process.env.REGENTE_API ?? "http://127.0.0.1:8080";

export default defineConfig({
  // Relative, so that one build works at the root and under any path prefix.
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@console": fileURLToPath(new URL("src", import.meta.url)) } },
  build: {
    outDir: process.env.REGENTE_CONSOLE_OUT ?? "../src/regente/console/static",
    emptyOutDir: true,
    // Images stay files, which are cached for longer than data: URLs.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    // The licences of what is bundled go with it, into the wheel.
    license: { fileName: "licenses.md" },
  },
  server: {
    fs: { allow: [".."] },
    proxy: { "/api": api, "/docs": api, "/pages": api, "/openapi.json": api },
  },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}", "../src/regente/pipelines/*/console/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test-setup.ts"],
  },
});
