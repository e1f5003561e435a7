// What the pipelines other than missions came to.
import { Anchor } from "@mantine/core";
import type { ComponentType, ReactNode } from "react";
import { Link, Route, Switch } from "wouter";
import { KINDS, type Kind } from "../../api/results";
import { useT } from "../../i18n";
import { NotFound } from "../../parts/States";
import { TabbedPage } from "../../parts/TabbedPage";
import { ExecutionPage, Executions } from "./Documents";
import { Embeddings } from "./Embeddings";
import { MatchPage } from "./MatchPage";
import { QuotePage } from "./QuotePage";
import { LotPage, Quotes } from "./Quotes";
import { RoundPage, Rounds } from "./Rounds";
import { asId } from "./states";

const TABS: Record<Kind, ComponentType> = {
  quotes: Quotes,
  rounds: Rounds,
  documents: Executions,
  embeddings: Embeddings,
};

export default function Results() {
  return (
    <Switch>
      <Route path="/results" component={Hub} />
      <Route path="/results/lots/:id">
        {({ id }) => <Deep of="quotes" id={id} show={(id) => <LotPage key={id} id={id} />} />}
      </Route>
      <Route path="/results/quotes/:id">
        {({ id }) => <Deep of="quotes" id={id} show={(id) => <QuotePage key={id} id={id} />} />}
      </Route>
      <Route path="/results/rounds/:id">
        {({ id }) => <Deep of="rounds" id={id} show={(id) => <RoundPage key={id} id={id} />} />}
      </Route>
      <Route path="/results/rounds/:id/:match">
        {({ id, match }) => (
          <Deep
            of="rounds"
            within={`/results/rounds/${id}`}
            id={id}
            show={(id) => <MatchPage key={match} id={id} match={match} />}
          />
        )}
      </Route>
      <Route path="/results/executions/:id">
        {({ id }) => (
          <Deep of="documents" id={id} show={(id) => <ExecutionPage key={id} id={id} />} />
        )}
      </Route>
      <Route component={NotFound} />
    </Switch>
  );
}

function Hub() {
  const t = useT();
  return (
    <TabbedPage
      title={t("nav.results")}
      label={t("results.tabs")}
      param="of"
      names={KINDS}
      nameOf={(kind) => t(`results.tab.${kind}`)}
      tabs={TABS}
    />
  );
}

// A page below a tab, with the way back.
function Deep({
  of,
  within,
  id,
  show,
}: {
  of: Kind;
  within?: string;
  id: string;
  show: (id: number) => ReactNode;
}) {
  const t = useT();
  const number = asId(id);
  if (number === null) return <NotFound />;
  return (
    <>
      <Anchor
        component={Link}
        href={within ?? (of === "quotes" ? "/results" : `/results?of=${of}`)}
        size="sm"
      >
        ← {t(within ? "match.round" : `results.tab.${of}`)}
      </Anchor>
      {show(number)}
    </>
  );
}
