// Results of the pipelines other than missions.
import { Anchor } from "@mantine/core";
import type { ComponentType, ReactNode } from "react";
import { Link, Route, Switch } from "wouter";
import { RESULT_KINDS, type ResultKind } from "../../api/results";
import { isOn } from "../../app/builtins";
import { NotFound } from "../../components/States";
import { TabbedPage } from "../../components/TabbedPage";
import { useT } from "../../i18n";
import { ExecutionPage, Executions } from "./Documents";
import { Embeddings } from "./Embeddings";
import { MatchPage } from "./MatchPage";
import { QuotePage } from "./QuotePage";
import { LotPage, Quotes } from "./Quotes";
import { RoundPage, Rounds } from "./Rounds";
import { parseId } from "./status";

const TABS: Record<ResultKind, ComponentType> = {
  quotes: Quotes,
  rounds: Rounds,
  documents: Executions,
  embeddings: Embeddings,
};

export default function Results() {
  return (
    <Switch>
      <Route path="/results" component={ResultTabs} />
      <Route path="/results/lots/:id">
        {({ id }) => <DetailPage of="quotes" id={id} show={(id) => <LotPage key={id} id={id} />} />}
      </Route>
      <Route path="/results/quotes/:id">
        {({ id }) => (
          <DetailPage of="quotes" id={id} show={(id) => <QuotePage key={id} id={id} />} />
        )}
      </Route>
      <Route path="/results/rounds/:id">
        {({ id }) => (
          <DetailPage of="rounds" id={id} show={(id) => <RoundPage key={id} id={id} />} />
        )}
      </Route>
      <Route path="/results/rounds/:id/:match">
        {({ id, match }) => (
          <DetailPage
            of="rounds"
            within={`/results/rounds/${id}`}
            id={id}
            show={(id) => <MatchPage key={match} id={id} match={match} />}
          />
        )}
      </Route>
      <Route path="/results/executions/:id">
        {({ id }) => (
          <DetailPage of="documents" id={id} show={(id) => <ExecutionPage key={id} id={id} />} />
        )}
      </Route>
      <Route component={NotFound} />
    </Switch>
  );
}

function ResultTabs() {
  const t = useT();
  const [first, ...others] = RESULT_KINDS.filter(isOn);
  if (first === undefined) return <NotFound />;
  return (
    <TabbedPage
      title={t("nav.results")}
      label={t("results.tabs")}
      param="of"
      names={[first, ...others]}
      nameOf={(kind) => t(`results.tab.${kind}`)}
      tabs={TABS}
    />
  );
}

// A page below a tab, with a link back.
function DetailPage({
  of,
  within,
  id,
  show,
}: {
  of: ResultKind;
  within?: string;
  id: string;
  show: (id: number) => ReactNode;
}) {
  const t = useT();
  const number = parseId(id);
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
