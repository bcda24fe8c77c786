//! The pages of `docs/errors`: the meaning of each code, its causes, and the remedy.

use serde_json::{Value, json};

/// A page.
pub struct Page {
    /// The code, such as `E401`.
    pub code: &'static str,
    /// The text in Markdown.
    pub text: &'static str,
}

impl Page {
    /// The first line, without the code.
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or("");
        line.split_once(": ").map_or(line, |(_, title)| title)
    }

    /// The page as a JSON object.
    pub fn json(&self) -> Value {
        json!({"v": 1, "code": self.code, "title": self.title(), "text": self.text})
    }
}

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(Page { code: $code, text: include_str!(concat!("../../errors/", $code, ".md")) }),*]
    };
}

/// Every page, by code. A test holds that none is left out.
pub const PAGES: &[Page] = pages!(
    "E001" "E002" "E003" "E004" "E005" "E006" "E007" "E008"
    "E009" "E010" "E011" "E012" "E013" "E101" "E102" "E103"
    "E104" "E105" "E106" "E108" "E109" "E110" "E112" "E113" "E114"
    "E115" "E116" "E117" "E201" "E202" "E203" "E204" "E205" "E206" "E207"
    "E208" "E209" "E301" "E302" "E303" "E304" "E305" "E401" "E402"
    "E403" "E404" "E405" "E406" "E408" "E409" "E410" "E411"
    "E412" "E414" "E415" "E416" "E417" "E501" "E502" "E503" "E504" "E505" "E506" "E508" "E601" "E602" "E603" "E604" "E605" "E606"
    "E701" "E702" "E703" "E704" "E705" "E706" "E707" "E708"
    "E709" "E710" "E711" "E712" "E713" "E714" "E715" "E716" "E717" "E718" "E719" "E720" "E721" "E722" "E723" "E724"
    "E725" "E726" "E727" "E728" "E729"
    "E730" "E731" "E732" "E733" "E740" "E741" "E742" "E743" "E744"
    "E745" "E746" "E747" "E748" "E749" "E750" "E751" "E752" "E753" "E754" "E755" "E756" "E757" "E758" "E759"
    "E770" "E771" "E772" "E773" "E801" "E802" "E803" "E804"
    "E805" "E806" "E807" "E808" "E809" "E810" "E811" "E901" "E902" "E903"
    "E904" "E905"
    "E910" "E911" "E912" "E913" "E914" "E915" "E916" "E917"
    "E918" "E919" "E920" "E921" "E922" "E923" "E924"
    "E930" "E931" "E932" "E933" "E934" "E935" "E936" "E999"
);
