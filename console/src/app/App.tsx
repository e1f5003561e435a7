import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Redirect, Route, Switch } from "wouter";
import { sessionQuery } from "../api/session";
import { ErrorAlert, Loading, NotFound } from "../components/States";
import { LiveProvider } from "../live/LiveProvider";
import { SignIn } from "../pages/sign-in/SignIn";
import { AppShell } from "./AppShell";
import { SessionContext } from "./session";

const Overview = lazy(() => import("../pages/overview/Overview"));
const Missions = lazy(() => import("../pages/missions/Missions"));
const MissionPage = lazy(() => import("../pages/mission/MissionPage"));
const Batches = lazy(() => import("../pages/batches/Batches"));
const Results = lazy(() => import("../pages/results/Results"));
const Failures = lazy(() => import("../pages/failures/Failures"));
const Fleet = lazy(() => import("../pages/fleet/Fleet"));
const Runners = lazy(() => import("../pages/runners/Runners"));
const Audit = lazy(() => import("../pages/audit/Audit"));
const Settings = lazy(() => import("../pages/settings/Settings"));

export function App() {
  const { data: session, error, refetch } = useQuery(sessionQuery);
  if (session === undefined)
    return error ? <ErrorAlert error={error} retry={() => void refetch()} /> : <Loading />;
  if (session === null) return <SignIn />;
  return (
    <SessionContext value={session}>
      <LiveProvider>
        <AppShell>
          <Suspense fallback={<Loading />}>
            <Pages />
          </Suspense>
        </AppShell>
      </LiveProvider>
    </SessionContext>
  );
}

function Pages() {
  return (
    <Switch>
      <Route path="/" component={Overview} />
      <Route path="/sign-in">
        <Redirect to="/" replace />
      </Route>
      <Route path="/missions" component={Missions} />
      <Route path="/missions/:id">{({ id }) => <MissionPage key={id} id={Number(id)} />}</Route>
      <Route path="/batches" component={Batches} />
      <Route path="/results/*?" component={Results} />
      <Route path="/failures" component={Failures} />
      <Route path="/fleet" component={Fleet} />
      <Route path="/runners" component={Runners} />
      <Route path="/audit" component={Audit} />
      <Route path="/settings" component={Settings} />
      <Route component={NotFound} />
    </Switch>
  );
}
