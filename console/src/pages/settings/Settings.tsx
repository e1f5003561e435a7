import { useLingui } from "@lingui/react";
import {
  Group,
  type MantineColorScheme,
  NativeSelect,
  Paper,
  Stack,
  Title,
  useMantineColorScheme,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { settingsQuery } from "../../api/settings";
import { useHasRole } from "../../app/session";
import { PageHeader, QueryView } from "../../components/States";
import { chooseLanguage, LANGUAGES, type Language, useT } from "../../i18n";
import { Keys } from "./Keys";
import { People } from "./People";
import { Sessions } from "./Sessions";
import { SettingsForm } from "./SettingsForm";

export default function Settings() {
  const t = useT();
  const query = useQuery(settingsQuery);
  const mayChange = useHasRole("admin");
  return (
    <>
      <PageHeader title={t("nav.settings")} />
      <Stack>
        <QueryView query={query}>
          {(found) => <SettingsForm found={found} mayChange={mayChange} />}
        </QueryView>
        <Appearance />
        <Sessions />
        {mayChange && <Keys />}
        {mayChange && <People />}
      </Stack>
    </>
  );
}

const THEMES: MantineColorScheme[] = ["auto", "light", "dark"];

function Appearance() {
  const t = useT();
  const { i18n } = useLingui();
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="sm">
        {t("settings.appearance")}
      </Title>
      <Group>
        <NativeSelect
          label={t("nav.language")}
          value={i18n.locale}
          data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
          onChange={(event) => void chooseLanguage(event.currentTarget.value as Language)}
        />
        <NativeSelect
          label={t("settings.theme")}
          value={colorScheme}
          data={THEMES.map((one) => ({ value: one, label: t(`settings.theme.${one}`) }))}
          onChange={(event) => setColorScheme(event.currentTarget.value as MantineColorScheme)}
        />
      </Group>
    </Paper>
  );
}
