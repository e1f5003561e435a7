// Results of the built-in pipelines: a tab of each, and the pages below it.
import { useLingui } from "@lingui/react";
import { Anchor } from "@mantine/core";
import type { ComponentType } from "react";
import { Link, Route, Switch } from "wouter";
import { BUILTIN_PAGES, type BuiltinPage, type Detail } from "../../app/builtinPages";
import { NotFound } from "../../components/States";
import { parseId } from "../../components/statuses";
import { TabbedPage } from "../../components/TabbedPage";
import { type Language, useT } from "../../i18n";

const TABS: Record<string, ComponentType> = Object.fromEntries(
  BUILTIN_PAGES.map(({ name, Tab }) => [name, Tab]),
);

export default function Results() {
  return (
    <Switch>
      <Route path="/results" component={ResultTabs} />
      {BUILTIN_PAGES.flatMap((page) =>
        (page.details ?? []).map((detail) => (
          <Route key={detail.path} path={detail.path}>
            {({ id, part }: { id?: string; part?: string }) => (
              <DetailPage of={page} detail={detail} id={id ?? ""} part={part ?? ""} />
            )}
          </Route>
        )),
      )}
      <Route component={NotFound} />
    </Switch>
  );
}

const useLanguage = () => useLingui().i18n.locale as Language;

function ResultTabs() {
  const t = useT();
  const language = useLanguage();
  const [first, ...others] = BUILTIN_PAGES.map(({ name }) => name);
  if (first === undefined) return <NotFound />;
  return (
    <TabbedPage
      title={t("nav.results")}
      label={t("results.tabs")}
      param="of"
      names={[first, ...others]}
      nameOf={(of) => BUILTIN_PAGES.find(({ name }) => name === of)?.title[language] ?? of}
      tabs={TABS}
    />
  );
}

// A page below a tab, with a link back.
function DetailPage({
  of,
  detail: { Page, back },
  id,
  part,
}: {
  of: BuiltinPage;
  detail: Detail;
  id: string;
  part: string;
}) {
  const language = useLanguage();
  const number = parseId(id);
  if (number === null) return <NotFound />;
  return (
    <>
      <Anchor component={Link} href={back?.href(number) ?? `/results?of=${of.name}`} size="sm">
        ← {(back?.name ?? of.title)[language]}
      </Anchor>
      <Page key={`${id}/${part}`} id={number} part={part} />
    </>
  );
}
