// A chart is a picture and, for whoever cannot or does not want to see it, the same numbers as a table.
import { Table } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useT } from "../../i18n";

export interface Series {
  id: string;
  name: string;
}

interface ChartProps {
  title: string;
  told: string;
  legend?: Series[];
  heads: string[];
  rows: string[][];
  children: ReactNode;
}

export function Chart({ title, told, legend = [], heads, rows, children }: ChartProps) {
  const t = useT();
  // Nobody sees the table before it is opened, and it is the larger half of the page.
  const [open, setOpen] = useState(false);
  return (
    <figure className="chart" aria-label={title}>
      <figcaption>
        <span className="quiet">{told}</span>
        {legend.map(({ id, name }) => (
          <span key={id} className="legend" data-hue={id}>
            {name}
          </span>
        ))}
      </figcaption>
      <div aria-hidden="true">{children}</div>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{t("chart.numbers")}</summary>
        {open &&
          (rows.length ? (
            <Numbers title={title} heads={heads} rows={rows} />
          ) : (
            <p className="quiet">{t("chart.nothing")}</p>
          ))}
      </details>
    </figure>
  );
}

function Numbers({ title, heads, rows }: { title: string; heads: string[]; rows: string[][] }) {
  const t = useT();
  return (
    <section
      className="chart-numbers"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region takes the keyboard focus
      tabIndex={0}
      aria-label={`${title}: ${t("chart.numbers")}`}
    >
      <Table>
        <Table.Thead>
          <Table.Tr>
            {heads.map((head) => (
              <Table.Th key={head}>{head}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={row[0]}>
              {row.map((cell, index) => (
                <Table.Td key={heads[index]}>{cell}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
