import { Alert, Button, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { toProblem } from "../../api/problem";
import { providersQuery, type SignInProvider, sessionQuery, signIn } from "../../api/session";
import { isMessageId, useT } from "../../i18n";

// The token of a sign-in link is in the fragment, which browsers do not send to the server. It is
// valid once, so it is removed from the address.
function takeToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}

// The problem of a sign-in with the provider, which sends the browser back with its code.
function messageOfProblem() {
  const id = `signIn.problem.${new URLSearchParams(location.search).get("problem")}`;
  return isMessageId(id) ? id : null;
}

export function SignIn() {
  const t = useT();
  const queries = useQueryClient();
  const [path, navigate] = useLocation();
  const [key, setKey] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: signIn,
    onSuccess: (session) => {
      if (path.startsWith("/sign-in")) navigate("/", { replace: true });
      queries.setQueryData(sessionQuery.queryKey, session);
    },
  });
  const problem = error && toProblem(error);
  const providerProblem = problem ? null : messageOfProblem();

  useEffect(() => {
    const token = takeToken();
    if (token) mutate({ token });
  }, [mutate]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    mutate({ api_key: key.trim() });
  };

  return (
    <main className="narrow">
      <Paper withBorder p="xl" radius="md">
        <form onSubmit={submit}>
          <Stack>
            <Title order={1}>Regente</Title>
            <Text>{t("signIn.help")}</Text>
            {problem && (
              <Alert color="red" role="alert">
                {problem.status === 401 ? t("signIn.refused") : problem.message}
              </Alert>
            )}
            {providerProblem && (
              <Alert color="red" role="alert">
                {t(providerProblem)}
              </Alert>
            )}
            <Providers page={path.startsWith("/sign-in") ? "/" : path + location.search} />
            <TextInput
              type="password"
              label={t("signIn.key")}
              autoComplete="current-password"
              required
              value={key}
              onChange={(event) => setKey(event.currentTarget.value)}
            />
            <Button type="submit" loading={isPending}>
              {t("signIn.submit")}
            </Button>
          </Stack>
        </form>
      </Paper>
    </main>
  );
}

function Providers({ page }: { page: string }) {
  const t = useT();
  const { data: providers = [] } = useQuery(providersQuery);
  const target = ({ url }: SignInProvider) => `${url}?${new URLSearchParams({ next: page })}`;
  return providers.map((provider) => (
    <Button key={provider.url} component="a" href={target(provider)}>
      {t("signIn.with", { name: provider.name })}
    </Button>
  ));
}
