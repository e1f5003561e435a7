"""Names and texts of ads, with accents, emoji, quotes, ampersands and angle brackets."""

from __future__ import annotations

_NAMES = (
    "Padaria São João",
    "Loja da Inês & Filhos",
    "Café “Três Corações”",
    "Müller GmbH",
    "L'Étoile d'Été",
    "Niño's <Taller>",
    "O'Brien & Sons",
    "Açaí do Zé 🍇",
    "Clínica Saúde+",
    "TechNow™",
    "Ñandú Viajes",
    'Studio "Ø"',
)
_TEXTS = {
    "pt": (
        "Promoção relâmpago ⚡ só hoje: 50% de desconto & frete grátis!",
        "“Nunca foi tão fácil emagrecer”, disse a Conceição. Saiba como…",
        "Preço < R$ 1.999,90 > à vista. Não perca! 👨‍👩‍👧‍👦",
        "Inscrições abertas: curso de inglês d'água & música. Use &amp; abuse.",
    ),
    "en": (
        "Don't miss it: 2 for 1 & free shipping 🚚",
        'They said "impossible". We said: <hold my coffee> ☕',
        "Save 30%\u00a0today — limited offer's end is near…",
        "Learn HTML: write &lt;b&gt; like a pro. 100% naïve façade.",
    ),
    "es": (
        "¡Última oportunidad! Envío gratis mañana 🎉",
        "¿Buscas piso en Málaga? Desde 850 € & sin comisión",
        'El "niño" que cambió el año: léelo aquí <gratis>',
    ),
    "fr": (
        "L'été arrive ☀️ : -40 % sur les maillots & accessoires",
        "« C'est déjà Noël ! » À découvrir dès aujourd'hui…",
        "Cœur d'artichaut ? Recettes < 15 minutes > ici",
    ),
    "de": (
        "Größte Auswahl für Füße & Schuhe 👟 jetzt 20 % günstiger",
        "„Schöner wohnen“ fängt hier an: Möbel ab 9,99 €",
        "Weiß, süß, heiß: <Glühwein> für alle! Straßenfest 🎶",
    ),
}

LANGUAGES = tuple(_TEXTS)


def write(digest: int, language: str, number: int) -> tuple[str, str]:
    """The advertiser's name and the ad's text."""
    texts = _TEXTS[language]
    name, text = _NAMES[digest % len(_NAMES)], texts[(digest >> 8) % len(texts)]
    return name, f"{text} #{number + 1}"
