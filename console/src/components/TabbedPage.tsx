// A page with tabs. The search parameter names the selected tab; the first tab has none.
import { Tabs } from "@mantine/core";
import type { ComponentType } from "react";
import { useSearchParams } from "wouter";
import { PageHeader } from "./States";

type Props<Name extends string> = {
  title: string;
  label: string;
  param: string;
  names: readonly [Name, ...Name[]];
  nameOf: (name: Name) => string;
  tabs: Record<Name, ComponentType>;
};

export function TabbedPage<Name extends string>({
  title,
  label,
  param,
  names,
  nameOf,
  tabs,
}: Props<Name>) {
  const [search, setSearch] = useSearchParams();
  const [first] = names;
  const tab = names.find((name) => name === search.get(param)) ?? first;
  const Shown: ComponentType = tabs[tab];
  return (
    <>
      <PageHeader title={title} />
      <Tabs
        value={tab}
        onChange={(name) =>
          setSearch(name && name !== first ? { [param]: name } : {}, { replace: true })
        }
        keepMounted={false}
      >
        <Tabs.List aria-label={label} mb="md">
          {names.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {nameOf(name)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          <Shown />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
