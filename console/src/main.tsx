import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { App } from "./app/App";
import { BASE_PATH } from "./app/basePath";
import { queryClient } from "./app/queryClient";
import { theme } from "./app/theme";
import "./app/mantine.css";
import "./app/base.css";
import "./app/layout.css";
import "./app/components.css";
import "./app/charts.css";
import { activatePreferredLanguage, i18n } from "./i18n";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");

await activatePreferredLanguage();
createRoot(root).render(
  <StrictMode>
    <I18nProvider i18n={i18n}>
      {/* The CSS variables are in a file: the Content-Security-Policy forbids inline styles. */}
      <MantineProvider
        theme={theme}
        defaultColorScheme="auto"
        withCssVariables={false}
        withGlobalClasses={false}
      >
        <QueryClientProvider client={queryClient}>
          <Router base={BASE_PATH}>
            <App />
          </Router>
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>
  </StrictMode>,
);
