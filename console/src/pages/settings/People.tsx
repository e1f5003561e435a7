// People who signed in with the OpenID Connect provider; only shown where one is configured.
import { Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { providersQuery } from "../../api/session";
import { endSessionsOf, type Person, peopleQuery } from "../../api/settings";
import { ConfirmButton } from "../../components/ActionButton";
import { QueryView } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

export function People() {
  const t = useT();
  const { data: providers = [] } = useQuery(providersQuery);
  const query = useQuery({ ...peopleQuery, enabled: providers.length > 0 });
  if (providers.length === 0) return null;
  return (
    <Paper withBorder p="md">
      <Stack>
        <Title order={2} size="h4">
          {t("people.title")}
        </Title>
        <QueryView query={query}>
          {(found) =>
            found.length === 0 ? (
              <Text c="dimmed">{t("people.none")}</Text>
            ) : (
              found.map((person) => <PersonRow key={person.id} of={person} />)
            )
          }
        </QueryView>
      </Stack>
    </Paper>
  );
}

function PersonRow({ of }: { of: Person }) {
  const t = useT();
  const format = useFormat();
  return (
    <Group justify="space-between">
      <Text size="sm">
        {of.name} · {of.role ? t(`role.${of.role}`) : t("people.noRole")} ·{" "}
        {t("people.seen", { ago: format.ago(of.signed_in_at) })} ·{" "}
        {t("people.sessions", { count: of.sessions })}
      </Text>
      {of.sessions > 0 && (
        <ConfirmButton
          size="compact-xs"
          variant="outline"
          color="red"
          action={() => endSessionsOf(of.id)}
          invalidates={[peopleQuery.queryKey]}
          question={t("people.endQuestion", { name: of.name })}
        >
          {t("people.end")}
        </ConfirmButton>
      )}
    </Group>
  );
}
