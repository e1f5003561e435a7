// The pages of the pipelines that come with Regente: each is `console/page.ts` in its pipeline's
// folder.
import type { ComponentType } from "react";
import type { Language } from "../i18n";
import { inOrder, isOn } from "./builtins";

export interface DetailProps {
  id: number;
  // What follows the id in the path.
  part: string;
}

export interface Detail {
  // Begins with /results/ and contains :id, and perhaps :part.
  path: string;
  Page: ComponentType<DetailProps>;
  // The page that it belongs to, if that is not the tab.
  back?: { href: (id: number) => string; name: Record<Language, string> };
}

// An item of the overview's list of problems.
export interface Attention {
  // Messages with {count}.
  text: Record<Language, string>;
  path: string;
}

export interface BuiltinPage {
  // As `page` in the descriptor.
  name: string;
  title: Record<Language, string>;
  // The pipelines whose events and batches concern it.
  pipelines: readonly string[];
  // Its tab on the page Results, by lazy(): only what is shown is loaded.
  Tab: ComponentType;
  details?: readonly Detail[];
  // The path of a batch's results.
  ofBatch?: (batchId: number) => string;
  // The problems that its additions report to the overview, by code.
  attention?: Record<string, Attention>;
}

const found = import.meta.glob<{ page: BuiltinPage }>(
  "../../../src/regente/pipelines/*/console/page.ts",
  { eager: true },
);

export const BUILTIN_PAGES: readonly BuiltinPage[] = inOrder(
  Object.values(found).map(({ page }) => page),
).filter(({ name }) => isOn(name));

const ofPipeline = (pipeline: string): BuiltinPage | undefined =>
  BUILTIN_PAGES.find(({ pipelines }) => pipelines.includes(pipeline));

export const attentionOf = (code: string): Attention | undefined =>
  BUILTIN_PAGES.flatMap(({ attention }) => attention?.[code] ?? [])[0];

// The pages that events may have changed. An event of a whole batch names no pipeline and may
// concern any of them.
export function pagesInEvents(
  events: readonly { pipeline: string | null; batch_id: number | null }[],
): Set<string> {
  return new Set(
    events.flatMap(({ pipeline, batch_id }) => {
      if (pipeline === null) return batch_id === null ? [] : BUILTIN_PAGES.map(({ name }) => name);
      const page = ofPipeline(pipeline);
      return page ? [page.name] : [];
    }),
  );
}

// Path of the page with the results of a batch, or null for pipelines without one.
export function resultsPath({
  id,
  pipeline,
}: {
  id: number;
  pipeline: string | null;
}): string | null {
  return (pipeline !== null && ofPipeline(pipeline)?.ofBatch?.(id)) || null;
}
