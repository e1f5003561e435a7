// A figure with a chart and the same numbers as a table, which screen readers read.
import { Table } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useT } from "../../i18n";

export interface Series {
  id: string;
  name: string;
}

interface ChartProps {
  title: string;
  summary: string;
  legend?: Series[];
  headers: string[];
  rows: string[][];
  children: ReactNode;
}

export function Chart({ title, summary, legend = [], headers, rows, children }: ChartProps) {
  const t = useT();
  // The table is rendered when it is opened: it is the larger half of the document.
  const [open, setOpen] = useState(false);
  return (
    <figure className="chart" aria-label={title}>
      <figcaption>
        <span className="quiet">{summary}</span>
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
            <ValuesTable title={title} headers={headers} rows={rows} />
          ) : (
            <p className="quiet">{t("chart.nothing")}</p>
          ))}
      </details>
    </figure>
  );
}

function ValuesTable({
  title,
  headers,
  rows,
}: {
  title: string;
  headers: string[];
  rows: string[][];
}) {
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
            {headers.map((head) => (
              <Table.Th key={head}>{head}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={row[0]}>
              {row.map((cell, index) => (
                <Table.Td key={headers[index]}>{cell}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
