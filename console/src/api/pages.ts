// What queries of the built-ins' pages share.
interface PageOf {
  next?: string | null;
}

// For lists that are read page by page.
export const paged = {
  initialPageParam: null as string | null,
  getNextPageParam: (page: PageOf) => page.next ?? null,
};

// Queries below this key are asked again after events of the built-in's pipelines.
export const resultsKey = (page: string) => ["results", page] as const;
