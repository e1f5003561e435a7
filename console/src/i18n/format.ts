import { useLingui } from "@lingui/react";

export interface Format {
  number: (value: number) => string;
  percent: (share: number) => string;
  money: (amount: string | number, currency: string | null) => string;
  time: (iso: string) => string;
  clock: (at: number) => string;
  minute: (at: number) => string;
  day: (iso: string) => string;
  days: (from: string, to: string) => string;
  duration: (seconds: number) => string;
  milliseconds: (milliseconds: number) => string;
  ago: (iso: string, now?: number) => string;
}

const SECOND = ["second", 1] as const;
const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60], SECOND] as const;

const largestUnit = (seconds: number) =>
  UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? SECOND;

// The currency comes from a scraped page: a code that is not ISO 4217 is shown as it is.
function moneyOf(locale: string, amount: number, currency: string | null): string {
  if (currency && /^[A-Za-z]{3}$/.test(currency))
    return new Intl.NumberFormat(locale, { style: "currency", currency }).format(amount);
  const plain = new Intl.NumberFormat(locale, {
    minimumFractionDigits: 2,
    maximumFractionDigits: 2,
  }).format(amount);
  return currency ? `${currency} ${plain}` : plain;
}

// Intl formatters are slow to create: each is created at first use and kept.
const lazy = <T>(make: () => T): (() => T) => {
  let made: T | undefined;
  return () => (made ??= make());
};

const cache = new Map<string, Format>();

export function formatFor(locale: string): Format {
  const format = cache.get(locale) ?? makeFormat(locale);
  cache.set(locale, format);
  return format;
}

function makeFormat(locale: string): Format {
  const dates = (options: Intl.DateTimeFormatOptions) =>
    lazy(() => new Intl.DateTimeFormat(locale, options));
  const number = lazy(() => new Intl.NumberFormat(locale, { maximumFractionDigits: 1 }));
  const percent = lazy(
    () => new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 }),
  );
  const time = dates({ dateStyle: "short", timeStyle: "medium" });
  const clock = dates({ timeStyle: "medium" });
  const minute = dates({ timeStyle: "short" });
  // The days of a mission are calendar days: they must not depend on the time zone.
  const day = dates({ dateStyle: "short", timeZone: "UTC" });
  const relative = lazy(
    () => new Intl.RelativeTimeFormat(locale, { style: "narrow", numeric: "always" }),
  );
  const spanIn = (unit: string) =>
    lazy(
      () =>
        new Intl.NumberFormat(locale, {
          style: "unit",
          unit,
          unitDisplay: "short",
          maximumFractionDigits: 1,
        }),
    );
  const spans = {
    day: spanIn("day"),
    hour: spanIn("hour"),
    minute: spanIn("minute"),
    second: spanIn("second"),
  };
  const duration = (seconds: number) => {
    const [unit, size] = largestUnit(seconds);
    return spans[unit]().format(seconds / size);
  };
  const millis = lazy(
    () =>
      new Intl.NumberFormat(locale, {
        style: "unit",
        unit: "millisecond",
        unitDisplay: "short",
        maximumFractionDigits: 0,
      }),
  );
  const dayOf = (iso: string) => day().format(new Date(`${iso}T00:00:00Z`));
  return {
    number: (value) => number().format(value),
    percent: (share) => percent().format(share),
    money: (amount, currency) => moneyOf(locale, Number(amount), currency),
    time: (iso) => time().format(new Date(iso)),
    clock: (at) => clock().format(at),
    minute: (at) => minute().format(at),
    day: dayOf,
    days: (from, to) => (from === to ? dayOf(from) : `${dayOf(from)} – ${dayOf(to)}`),
    duration,
    milliseconds: (milliseconds) =>
      milliseconds < 1000 ? millis().format(milliseconds) : duration(milliseconds / 1000),
    ago: (iso, now = Date.now()) => {
      const seconds = (Date.parse(iso) - now) / 1000;
      const [unit, size] = largestUnit(seconds);
      return relative().format(Math.trunc(seconds / size), unit);
    },
  };
}

export function useFormat(): Format {
  const { i18n } = useLingui();
  return formatFor(i18n.locale);
}
