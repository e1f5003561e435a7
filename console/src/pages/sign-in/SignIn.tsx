import { Alert, Button, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useLocation } from "wouter";
import type { Schemas } from "../../api/client";
import { asProblem } from "../../api/problem";
import { type Session, sessionQuery, signIn } from "../../api/session";
import { useT } from "../../i18n";

let spending: Promise<Session> | null = null;

// A link's token stands behind the #, which is sent to no server. It works once, so it is taken out and spent once.
function spendLink(): Promise<Session> | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    spending = signIn({ token });
  }
  return spending;
}

export function SignIn() {
  const t = useT();
  const queries = useQueryClient();
  const [here, go] = useLocation();
  const [key, setKey] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const finish = async (asked: Promise<Session>) => {
    setBusy(true);
    try {
      const session = await asked;
      spending = null;
      if (here.startsWith("/sign-in")) go("/", { replace: true });
      queries.setQueryData(sessionQuery.queryKey, session);
    } catch (failure) {
      spending = null;
      const problem = asProblem(failure);
      setError(problem.status === 401 ? t("signIn.refused") : problem.message);
      setBusy(false);
    }
  };

  useEffect(() => {
    const asked = spendLink();
    if (asked) void finish(asked);
  }, []);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    const credentials: Schemas["Credentials"] = { api_key: key.trim() };
    void finish(signIn(credentials));
  };

  return (
    <main className="narrow">
      <Paper withBorder p="xl" radius="md">
        <form onSubmit={submit}>
          <Stack>
            <Title order={1}>Regente</Title>
            <Text>{t("signIn.how")}</Text>
            {error && (
              <Alert color="red" role="alert">
                {error}
              </Alert>
            )}
            <TextInput
              type="password"
              label={t("signIn.key")}
              autoComplete="current-password"
              required
              value={key}
              onChange={(event) => setKey(event.currentTarget.value)}
            />
            <Button type="submit" loading={busy}>
              {t("signIn.enter")}
            </Button>
          </Stack>
        </form>
      </Paper>
    </main>
  );
}
